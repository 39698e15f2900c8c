"""libsvm and libfm text: what lines become, and what makes them bad."""

from pathlib import Path

import numpy as np
import pytest

from heterps.data import BadRows, Dataset, Field, Schema, label, libsvm, open_dataset, ragged
from heterps.data.core.recipes import Number
from heterps.errors import DataError
from heterps.ragged import Ragged


def everything(data: Dataset, bad: BadRows | None = None) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {name: [] for name in data.schema.names}
    for split in data.splits():
        for batch in data.read(split, batch_size=3, bad=bad):
            for name in found:
                found[name] += batch[name].tolist()
    return found


def write(folder: Path, text: str, name: str = "a.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_the_same_number_of_features_become_ids(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path, "-1 3:1 17:1\n1 4:1 18:1 # a remark\n\n1 3:1 18:1.0\n" * 5), split_cost=40)
    assert type(data).__name__ == "LibSvm"
    assert len(data.splits()) > 3
    found = everything(data)
    assert found["ids"] == [[3, 17], [4, 18], [3, 18]] * 5
    assert found["y"] == [0.0, 1.0, 1.0] * 5
    assert data.study is not None
    assert data.study.notes == ("features: 2 on every line, each of value 1: ids", "label: -1 and 1 become 0 and 1")


def test_numbers_go_where_their_indices_say(tmp_path: Path) -> None:
    data = libsvm(write(tmp_path, "1 0:0.5 3:2\n0 qid:7 1:1\n0\n"))
    assert everything(data)["x"] == [[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 0, 0]]


def test_many_features_of_any_number_are_ragged(tmp_path: Path) -> None:
    data = libsvm(write(tmp_path, "1 5:1 70000:1\n0 9:0.5\n"))
    assert everything(data)["ids"] == [[5, 70000], [9]]
    assert data.study is not None
    assert "values other than 1 are not used" in data.study.notes[0]
    assert isinstance(next(iter(data.read(data.splits()[0], batch_size=2)))["ids"], Ragged)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x 1:1", "label is not a finite number"),
        ("nan 1:1", "label is not a finite number"),
        ("1 1:inf", "value is not a finite number"),
        ("1 1:", "value is not a finite number"),
        ("1 a:1", "not an index"),
        ("1 -1:1", "not an index"),
        (f"1 {2**64 - 1}:1", "not an index"),
        ("1:1 2:1", "no label"),
        ("7 1:1 2:1", "label out of bounds"),
        ("1 1:1 2:1 3:1", "3 features instead of 2"),
        ("1 1:1 é:1", "not ASCII text"),
    ],
    ids=range(11),
)
def test_bad_lines_are_counted_with_their_reason(tmp_path: Path, line: str, reason: str) -> None:
    fields = Schema.of(Field("ids", "sparse", (2,)), label("y", Number("label")))
    data = libsvm(write(tmp_path, f"1 1:1 2:1\n{line}\n0 3:1 4:1\n"), fields).labels_within({"y": (0, 1)})
    bad = BadRows()
    assert everything(data, bad)["ids"] == [[1, 2], [3, 4]]
    (row,) = bad.first
    assert (row.line, row.before, reason in row.reason) == (2, 1, True)


def test_unseen_features_and_labels_are_no_mistake_for_predictions(tmp_path: Path) -> None:
    fields = Schema.of(Field("x", "dense", (2,)), label("y", Number("label")))
    data = libsvm(write(tmp_path, "1:3 900:1\n"), fields).without_labels()
    found = everything(data)
    assert found["x"] == [[0, 3]]
    assert np.isnan(found["y"])


def test_what_is_no_such_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no line of libsvm text"):
        libsvm(write(tmp_path, "hello there\n"))
    lists = Schema.of(ragged("ids"), label("y", Number("label")))
    assert everything(libsvm(write(tmp_path, "1 2:1\n0\n"), lists))["ids"] == [[2], []]
