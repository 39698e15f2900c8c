"""What the kinds of the zoo need from a session: running statistics, and ids drawn before rows are pulled."""

import importlib
from typing import Any

import numpy as np
import pytest

import heterps as hps
from graphs.word2vec import word2vec
from heterps import ops
from heterps.kernels import batch_seed
from heterps.stages.drawn import drawing_ops, with_drawn
from heterps.tables import Shard
from heterps.testing.engine_contract import same

ROWS, BATCH = 96, 16


def normalised() -> hps.Graph:
    x, y = ops.input("x", shape=(3,)), ops.input("y")
    h = ops.batch_norm(x, momentum=0.75, name="norm")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), y, name="loss"), outputs={"h": h})


def numbers() -> np.ndarray:
    return np.random.default_rng(2).normal(3, 2, (ROWS, 3)).astype(np.float32)


def rows() -> hps.Dataset:
    return hps.arrays({"x": numbers(), "y": np.zeros(ROWS, np.float32)}, split_cost=ROWS)


def averaged(groups: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Moving averages, each step taking the mean over a group of batches."""
    mean, variance = np.zeros(3), np.ones(3)
    for group in groups:
        mean = 0.75 * mean + 0.25 * np.mean([batch.mean(0) for batch in group], axis=0)
        variance = 0.75 * variance + 0.25 * np.mean([batch.var(0) for batch in group], axis=0)
    return mean, variance


def inline(graph: hps.Graph, mode: Any = "sync", **rest: Any) -> hps.Session:
    plan = hps.Plan.fused(graph, batch_size=BATCH, **rest)
    # A rule with momentum and decay: neither may reach the statistics.
    return hps.launch(plan, engine="inline", mode=mode, dense=hps.Momentum(lr=0.1, l2=0.5))


def _dense(shard: Shard, host: int) -> np.ndarray:
    return shard.pull_dense()


def parameters(session: hps.Session) -> np.ndarray:
    (flat,) = session.engine.each_shard(_dense)
    return flat


def predicted(session: hps.Session) -> np.ndarray:
    return session.predict(rows(), fetch="h")


def test_running_statistics_are_the_moving_average_over_batches() -> None:
    batches = np.split(numbers(), ROWS // BATCH)
    with inline(normalised()) as session:
        session.fit(rows())
        found = parameters(session)
        np.testing.assert_allclose(found[6:12], np.concatenate(averaged([[b] for b in batches])), rtol=1e-5)
        scale, shift, mean, variance = found[:3], found[3:6], found[6:9], found[9:12]
        expected = (numbers() - mean) / np.sqrt(variance + 1e-5) * scale + shift
        np.testing.assert_allclose(predicted(session), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", [hps.Sync(), hps.Async(depth=1, merge=2)])
def test_summed_batches_move_them_by_their_mean(mode: Any) -> None:
    lanes = 2 if mode.ordered else 1
    data = hps.arrays({"x": numbers(), "y": np.zeros(ROWS, np.float32)}, split_cost=ROWS // lanes)
    parts = [np.split(part, len(part) // BATCH) for part in np.split(numbers(), lanes)]
    groups = list(zip(*parts, strict=True)) if lanes == 2 else list(zip(parts[0][::2], parts[0][1::2], strict=True))
    with inline(normalised(), mode, lanes=lanes) as session:
        session.fit(data)
        found = parameters(session)[6:12]
    np.testing.assert_allclose(found, np.concatenate(averaged([list(group) for group in groups])), rtol=1e-5)


def pairs(n: int = 400) -> hps.Dataset:
    rng = np.random.default_rng(0)
    word = rng.integers(0, 20, n)
    return hps.arrays({"word": word, "context": (word + 1) % 20}, split_cost=100)


def skipgrams(seed: int = 0, **rest: Any) -> dict[str, np.ndarray]:
    plan = hps.Plan.fused(word2vec(20, 4, 3), batch_size=32, **rest)
    with hps.launch(plan, engine="inline", mode="sync", seed=seed) as session:
        session.fit(pairs())
        everything = hps.arrays({"word": np.arange(20), "context": np.arange(20)})
        return session.predict(everything, fetch=["vector", "true"])


def test_negatives_are_the_same_in_every_run_of_a_seed() -> None:
    assert same(skipgrams(), skipgrams(shard_hosts=2))
    assert not same(skipgrams(), skipgrams(seed=1))


def test_each_batch_and_op_draws_its_own() -> None:
    context = ops.input("context", dtype="uint64")
    a, b = (ops.negative_sampling(context, 3, 1000, name=name) for name in ("a", "b"))
    shared = [ops.sum(ops.lookup(ids, table="t", dim=1)) for ids in (a, b)]
    drawing = drawing_ops(hps.Graph(loss=ops.mse(*shared)))
    first, other = (with_drawn(drawing, {}, 50, batch_seed(0, *key)) for key in ((0, 0, 0), (0, 0, 1)))
    assert not np.array_equal(first["a"], first["b"])
    assert not np.array_equal(first["a"], other["a"])
    np.testing.assert_array_equal(first["a"], with_drawn(drawing, {}, 50, batch_seed(0, 0, 0, 0))["a"])


def test_vectors_need_no_negatives_and_predictions_draw_their_own() -> None:
    plan = hps.Plan.fused(word2vec(20, 4, 3), batch_size=32)
    with hps.launch(plan, engine="inline") as session:
        session.fit(pairs())
        assert session.predict(hps.arrays({"word": np.arange(20)}), fetch="vector").shape == (20, 4)
        assert session.predict(pairs()).shape == (400,)


@pytest.mark.parametrize("model", ["word2vec", "nce"])
def test_plans_and_profiles_know_drawn_ids(model: str) -> None:
    from heterps.planner.costs.sample import sample_batches
    from heterps.runtime.measure.measuring import synthetic_batch

    graph = getattr(importlib.import_module(f"graphs.{model}"), model)()
    columns = synthetic_batch(graph, 8)
    name = drawing_ops(graph)[0].name
    assert len(columns[name]) == 8
    del columns[name]
    sample = sample_batches(graph, [columns])
    assert sample.rows == 8
