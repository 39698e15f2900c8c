"""A metric of each task is the metric of its columns alone."""

import numpy as np
import pytest

import heterps as hps
from heterps.metrics import MetricSet, OfTask, metric
from heterps.models import mmoe


def test_each_task_is_measured_by_itself() -> None:
    rng = np.random.default_rng(0)
    n, slots = 600, 3
    columns = {
        "ids": rng.integers(0, 50, (n, slots)).astype(np.uint64),
        "x": rng.normal(size=(n, 2)).astype(np.float32),
        "y": rng.integers(0, 2, (n, 2)).astype(np.float32),
    }
    model = mmoe(slots=slots, dense=2, dim=4, experts=2, expert=4, tower=3)
    data = hps.arrays(columns, split_cost=200)
    with hps.launch(model, engine="inline", batch_size=64) as session:
        last = session.fit(data)
        assert {"auc_0", "auc_1"} <= set(last.metrics)
        found = session.evaluate(data)
        predictions = np.asarray(session.predict(data))
    assert sorted(found) == ["auc_0", "auc_1", "logloss_0", "logloss_1"]
    for task in (0, 1):
        alone = MetricSet.of(["auc", "logloss"])
        states = alone.update(alone.init(), predictions[:, task], columns["y"][:, task])
        for name in ("auc", "logloss"):
            assert found[f"{name}_{task}"] == pytest.approx(metric(name).result(states[name]), abs=1e-6)


def test_states_merge_as_those_of_the_metric() -> None:
    rng = np.random.default_rng(1)
    p, y = rng.random((90, 3)), rng.integers(0, 2, (90, 3))
    one = OfTask(metric("auc"), 2)
    whole = one.update(one.init(), p, y)
    parts = [one.update(one.init(), p[a : a + 30], y[a : a + 30]) for a in (0, 30, 60)]
    merged = one.merge(one.merge(parts[2], parts[0]), parts[1])
    assert one.result(merged) == one.result(whole)
    assert one.name == "auc_2"
