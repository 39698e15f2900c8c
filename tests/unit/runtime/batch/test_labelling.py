"""Labels that a loss does not take are told of before training, from a look at the data."""

import numpy as np
import pandas as pd
import pytest

from heterps import models
from heterps.data import Number, Schema, dense, frame, label
from heterps.errors import LabelError
from heterps.runtime.batch.labelling import check_labels

LOGLOSS = models.dnn(dense=1)


def rows(labels: object) -> pd.DataFrame:
    return pd.DataFrame({"a": np.linspace(0, 1, 40), "y": labels})


def test_ratings_are_no_clicks() -> None:
    with pytest.raises(
        LabelError, match=r"'y' lies from 1 to 5, and the model's loss \(logloss\) takes 0 to 1: 32 of 40"
    ):
        check_labels(LOGLOSS, frame(rows(np.arange(40) % 5 + 1)))
    check_labels(models.dnn(dense=1, loss="mse"), frame(rows(np.arange(40) % 5 + 1)))


def test_classes_beyond_those_of_the_model_are_told() -> None:
    few = models.mnist_mlp(pixels=1, classes=3)
    check_labels(few, frame(rows(np.arange(40) % 3)))
    with pytest.raises(
        LabelError, match=r"lies from 5 to 9, and the model's loss \(softmax_cross_entropy\) takes 0 to 2"
    ):
        check_labels(few, frame(rows(np.arange(40) % 5 + 5)))


def test_text_of_several_values_is_no_label() -> None:
    with pytest.raises(LabelError, match=r"text of 3 different values, 'a' to 'c', .* \(mse\) takes numbers: 40 of 40"):
        check_labels(models.dnn(dense=1, loss="mse"), frame(rows(np.array(list("abc"))[np.arange(40) % 3])))


def test_a_few_bad_labels_and_missing_ones_are_left_to_the_rows() -> None:
    labels = np.where(np.arange(40) < 10, 7.0, np.arange(40) % 2)
    labels[20:] = np.nan
    check_labels(LOGLOSS, frame(rows(np.where(np.arange(40) < 4, 7.0, labels))))
    check_labels(LOGLOSS, frame(rows(np.full(40, np.nan)), label="y"))


def test_labels_count_as_their_recipe_makes_them_and_nothing_is_known_without_a_study() -> None:
    fields = Schema.of(dense("x", Number("a")), label("y", Number("y", mean=1.0, std=4.0)))
    ratings = frame(rows(np.arange(40) % 5 + 1))
    check_labels(LOGLOSS, ratings.with_fields(fields))
    check_labels(
        LOGLOSS, frame(rows(np.arange(40) % 5 + 1), Schema.of(dense("x", Number("a")), label("y", Number("y"))))
    )
