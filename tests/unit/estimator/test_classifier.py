"""Classes: kinds of frames, words, weights, early stopping, pickles."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

import heterps as hps
from heterps import ops
from heterps.errors import CheckpointError, DataError, GraphError, RunError, UnknownKindError

RNG = np.random.default_rng(0)
CITY = RNG.choice(["Oslo", "Rome", "Bonn"], 300)
FRAME = pd.DataFrame({"city": CITY, "age": RNG.normal(40, 12, 300)}, index=np.arange(300) * 2)
Y = np.where((CITY == "Oslo") ^ (FRAME["age"].to_numpy() > 40), "yes", "no")


@pytest.fixture(scope="module")
def fitted() -> hps.Classifier:
    return hps.Classifier(epochs=40, batch_size=64).fit(FRAME, Y)


def test_a_frame_comes_back_as_its_kind(fitted: hps.Classifier) -> None:
    answer, shares = fitted.predict(FRAME), fitted.predict_proba(FRAME)
    assert fitted.score(FRAME, Y) > 0.95
    assert list(fitted.classes_) == ["no", "yes"]
    assert isinstance(answer, pd.Series)
    assert answer.index.equals(FRAME.index)
    assert list(shares.columns) == ["no", "yes"]
    assert np.allclose(shares.sum(axis=1), 1)
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    assert fitted.predict(table).to_pylist() == answer.tolist()
    assert fitted.predict_proba(table).column_names == ["no", "yes"]
    columns = fitted.predict({"city": list(CITY), "age": FRAME["age"].to_numpy()})
    assert isinstance(columns, np.ndarray)
    assert columns.tolist() == answer.tolist()


def test_polars(fitted: hps.Classifier) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"age": FRAME["age"].to_numpy(), "city": list(CITY)})
    assert isinstance(fitted.predict(frame), polars.Series)
    assert fitted.predict(frame).to_list() == fitted.predict(FRAME).tolist()
    assert fitted.predict_proba(frame).columns == ["no", "yes"]
    assert hps.Classifier("linear", epochs=1).fit(frame, polars.Series(list(Y))).classes_.tolist() == ["no", "yes"]


def test_columns_are_found_by_name(fitted: hps.Classifier) -> None:
    assert fitted.predict(FRAME[["age", "city"]]).tolist() == fitted.predict(FRAME).tolist()
    strange = FRAME.assign(city="Atlantis", age=np.nan)  # neither a new word nor a missing number is an error
    assert np.isfinite(fitted.predict_proba(strange)).all(axis=None)
    with pytest.raises(DataError, match="no column 'city'"):
        fitted.predict(FRAME[["age"]])
    with pytest.raises(DataError, match=r"300 rows have no prediction, the first is row 0|no row could be read"):
        fitted.predict(FRAME.assign(age=np.inf))


def test_a_pickle_has_a_snapshot(fitted: hps.Classifier) -> None:
    data = pickle.dumps(fitted)
    again = pickle.loads(data)
    assert np.array_equal(again.predict_proba(FRAME), fitted.predict_proba(FRAME))
    assert pickle.loads(pickle.dumps(again)).predict(FRAME).tolist() == fitted.predict(FRAME).tolist()
    broken = pickle.loads(data)
    name = next(name for name in broken._fitted._files if name.endswith(".parquet"))
    broken._fitted._files[name] = broken._fitted._files[name][:40]
    with pytest.raises(CheckpointError):
        broken.predict(FRAME)


def test_many_classes_and_weights() -> None:
    x = RNG.normal(size=(240, 2))
    y = np.digitize(x[:, 0], [-0.5, 0.5]) + 7
    model = hps.Classifier("dnn", epochs=30, batch_size=32).fit(x, y)
    assert model.classes_.tolist() == [7, 8, 9]
    assert model.score(x, y) > 0.9
    assert model.predict_proba(x).shape == (240, 3)
    words = np.array([["a", 1.0], ["b", 2.0]] * 30, dtype=object)
    assert hps.Classifier(epochs=30).fit(words, words[:, 0]).score(words, words[:, 0]) == 1.0
    noise, coin = RNG.normal(size=(200, 1)), np.arange(200) % 2
    for options, given in (({"class_weight": {0: 50.0}}, None), ({}, np.where(coin == 0, 50.0, 1.0))):
        tilted = hps.Classifier("linear", epochs=10, **options).fit(noise, coin, given)
        assert (tilted.predict(noise) == 0).mean() > 0.9
    balanced = hps.Classifier("linear", epochs=10, class_weight="balanced").fit(noise, np.arange(200) % 10 == 0)
    assert balanced.predict_proba(noise)[:, 1].mean() > 0.3


def test_early_stopping_brings_the_best_model_back() -> None:
    x, coin = RNG.normal(size=(100, 20)), np.arange(100) % 2  # nothing to be learnt but by heart
    other = (RNG.normal(size=(100, 20)), coin)
    model = hps.Classifier("dnn", epochs=60, batch_size=20, early_stopping_rounds=3, dense=hps.Adam(lr=0.01))
    model.fit(x, coin, eval_set=[(x, coin), other])
    losses = model.evals_result_["validation_1"]["logloss"]
    assert model.n_iter_ == len(losses) == model.best_iteration_ + 4 < 60
    assert model.best_score_ == min(losses)
    p = model.predict_proba(other[0])[np.arange(100), coin]
    assert np.isclose(-np.log(p).mean(), model.best_score_, rtol=1e-3)
    assert model.evals_result_["validation_0"]["logloss"][-1] < model.evals_result_["validation_0"]["logloss"][0]


def own(slots: int, dense: int, width: int = 4) -> hps.Graph:
    ids, x = ops.input("ids", shape=(slots,), dtype="uint64"), ops.input("x", shape=(dense,))
    h = ops.concat(ops.lookup(ids, table="t", dim=width), x)
    return hps.Graph(ops.logloss(ops.dense(h, 1), ops.input("y")))


def test_models_by_name_and_by_function() -> None:
    model = hps.Classifier(own, settings={"width": 2}, epochs=2).fit(FRAME, Y, sample_weight=np.ones(300))
    assert [op.name for op in model.session.plan.graph.inputs] == ["ids", "x", "y", "w"]
    zoo = hps.Classifier("dlrm", settings={"dim": 4, "bottom": (8,), "top": (8,)}, epochs=2).fit(FRAME, Y)
    assert "pairs" in zoo.session.plan.graph
    for bad, error, message in (
        ({"model": "deepfn"}, UnknownKindError, "no model is called 'deepfn'; did you mean 'deepfm'"),
        ({"settings": {"hiden": (3,)}}, GraphError, "has no setting 'hiden'; did you mean 'hidden'"),
        ({"model": own, "settings": {"widht": 3}}, GraphError, "did you mean 'width'"),
        ({"categorical": ["town"]}, DataError, "categorical names 'town', which is no column"),
        ({"class_weight": {"maybe": 2}}, DataError, "class_weight names 'maybe', which is no class"),
        ({"early_stopping_rounds": 2}, DataError, "needs eval_set"),
    ):
        with pytest.raises(error, match=message):
            hps.Classifier(**bad).fit(FRAME, Y)
    with pytest.raises(GraphError, match="ends in a logloss, and what is to be predicted here needs a softmax"):
        hps.Classifier(own).fit(FRAME, CITY)
    with pytest.raises(DataError, match=r"column 'when' is timestamp.*: give numbers or text"):
        hps.Classifier().fit(FRAME.assign(when=pd.Timestamp(0)), Y)
    with pytest.raises(DataError, match="there is a class that the training rows have not: 'maybe'"):
        hps.Classifier("linear", epochs=1).fit(FRAME, Y, eval_set=(FRAME, np.full(300, "maybe")))


def test_numbers_can_be_categories_and_a_model_ends_when_it_is_closed() -> None:
    codes = pd.DataFrame({"code": np.arange(200) % 7})
    y = np.isin(codes["code"], [0, 3, 5])
    with hps.Classifier("linear", categorical=["code"], epochs=30).fit(codes, y) as model:
        assert model.score(codes, y) == 1.0
    with pytest.raises(NotFittedError):
        model.predict(codes)
    held = model.fit(codes, y)._fitted
    held.close()
    with pytest.raises(RunError, match="was closed"):
        held.session  # noqa: B018
