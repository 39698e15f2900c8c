"""scikit-learn's own checks, and the habits of its users."""

import importlib
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_info

import heterps as hps
from heterps.errors import RunError

WEIGHTS = "batches of other rows are other steps: a weight of two is not the same as a row that comes twice"
BITS = "computes in float32: rows of a batch are summed in another order, which changes the last bits"
EXCEPTIONS = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_methods_sample_order_invariance": BITS,
    "check_methods_subset_invariance": BITS,
}


@pytest.mark.full
@pytest.mark.parametrize("make", [hps.Classifier, hps.Regressor], ids=["Classifier", "Regressor"])
def test_the_checks_of_scikit_learn(make: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what checks provoke is theirs
        found = check_estimator(make(epochs=20), expected_failed_checks=EXCEPTIONS, on_skip=None, on_fail=None)
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
    assert len(found) > 40


def test_clone_pipeline_and_grid_search() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = np.where(x[:, 0] > 0, "up", "down")
    model = hps.Classifier("linear", epochs=3, batch_size=40, settings={"hidden": (8,)})
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(epochs=4).epochs == 4
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {"classifier__epochs": [1, 8]}, cv=2, error_score="raise"
    )
    assert search.fit(x, y).best_params_ == {"classifier__epochs": 8}
    assert set(search.predict(x)) <= {"up", "down"}


def test_a_fitted_model_leaves_the_threads_of_others_alone() -> None:
    before = [(pool["prefix"], pool["num_threads"]) for pool in threadpool_info()]
    x = np.random.default_rng(0).normal(size=(50, 2))
    model = hps.Regressor("linear", epochs=1).fit(x, x[:, 0])
    assert [(pool["prefix"], pool["num_threads"]) for pool in threadpool_info()] == before
    model.close()


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "heterps.estimator.sklearn_base", raising=False)
    with pytest.raises(RunError, match=r"need scikit-learn: pip install 'heterps\[sklearn\]'"):
        importlib.import_module("heterps.estimator.sklearn_base")


def test_columns_of_a_frame_go_through_a_transformer() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(40.0), "b": ["p", "q"] * 20})
    chosen = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include=np.number)),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = make_pipeline(chosen, hps.Classifier("wide_deep", epochs=1)).fit(frame, np.arange(40) % 2)
    assert len(model.predict(frame)) == 40
