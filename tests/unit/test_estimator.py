"""fit, predict, score."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import heterps as hps
from heterps.errors import DataError, RunError
from heterps.estimator import Estimator
from heterps.testing.small_model import columns, data, graph


def estimator(**options: object) -> Estimator:
    return Estimator(graph, epochs=3, batch_size=64, engine="inline", sparse=hps.ElementAdaGrad(lr=0.1), **options)


def test_fit_predict_score_and_save(tmp_path: Path) -> None:
    train, test = columns(), columns(seed=8)
    y, y_test = train.pop("y"), test.pop("y")
    with estimator() as model:
        assert model.fit(train, y) is model
        p = model.predict(test)
        assert model.score(test, y_test) > 0.93
        assert model.score(data(seed=8)) == model.score(test, y_test)
        model.save(tmp_path)
    assert p.shape == (1500,)
    with hps.load(tmp_path, engine="inline") as session:
        assert np.array_equal(np.asarray(session.predict(hps.arrays(test))), p)


def test_fit_begins_afresh_and_partial_fit_goes_on() -> None:
    with estimator(seed=3) as model:
        first = model.fit(data()).predict(data())
        again = model.fit(data()).predict(data())
        more = model.partial_fit(data()).predict(data())
    assert np.array_equal(first, again)
    assert not np.array_equal(first, more)


def test_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    from heterps import ops

    def two() -> hps.Graph:
        ids, x = ops.input("ids", shape=(1,), dtype="uint64"), ops.input("x", shape=(1,))
        h = ops.concat(ops.lookup(ids, table="t", dim=2), x)
        return hps.Graph(ops.logloss(ops.dense(h, 1), ops.input("y")))

    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 600)
    table = pandas.DataFrame({"colour": colour, "size": rng.normal(size=600)})
    with Estimator(two, epochs=5, batch_size=50, engine="inline", sparse=hps.ElementAdaGrad(lr=0.2)) as model:
        assert model.fit(table, colour == "red").score(table, colour == "red") > 0.95
        assert len(model.predict(table)) == 600
        assert np.array_equal(model.predict(pa.Table.from_pandas(table)), model.predict(table))


def test_mistakes() -> None:
    with estimator() as model:
        with pytest.raises(RunError, match="call fit first"):
            model.predict(data())
        with pytest.raises(DataError, match="own label"):
            model.fit(data(), np.zeros(3))
        with pytest.raises(DataError, match="X is list"):
            model.fit([1, 2])
