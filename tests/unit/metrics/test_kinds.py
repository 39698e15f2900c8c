"""Each further kind of metric against a plain computation."""

import math

import numpy as np
import pytest
from sklearn import metrics as sk

from heterps.metrics import (
    GAUC,
    AUCBy,
    BucketError,
    COPCBy,
    Metric,
    MetricSet,
    Running,
    SlotAUC,
    SlotCOPC,
    TopAccuracy,
    copc,
    ctr_bundle,
    metric,
)


def result(which: Metric, *arrays: np.ndarray, **columns: np.ndarray):  # type: ignore[no-untyped-def]
    return which.result(which.update(which.init(), *arrays, **columns))


def clicks(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(2, 6, n), 3).astype(np.float32)
    return p, (rng.random(n) < p).astype(np.float32)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_accuracy(k: int) -> None:
    rng = np.random.default_rng(0)
    scores, y = rng.random((500, 7)), rng.integers(0, 7, 500)
    assert result(TopAccuracy(k), scores, y) == sk.top_k_accuracy_score(y, scores, k=k)
    assert result(TopAccuracy(2), np.ones((3, 4)), np.array([0, 1, 2])) == pytest.approx(2 / 3)


def test_gauc_is_the_weighted_mean_of_group_aucs() -> None:
    p, y = clicks(4000)
    users = np.random.default_rng(1).integers(0, 300, 4000).astype(np.uint64)
    aucs, sizes = {}, {}
    for user in np.unique(users):
        mine = users == user
        if 0 < y[mine].sum() < mine.sum():
            aucs[int(user)], sizes[int(user)] = sk.roc_auc_score(y[mine], p[mine]), mine.sum()
    expected = np.average(list(aucs.values()), weights=list(sizes.values()))
    assert result(GAUC("user"), p, y, user=users) == pytest.approx(expected, rel=1e-12)
    by = result(AUCBy("user", most=1000), p, y, user=users)
    assert by == pytest.approx(aucs, rel=1e-12)
    assert list(by) == sorted(aucs, key=lambda user: (-sizes[user], user))
    two = np.stack([users + 1, users], 1)
    assert result(GAUC("ids", element=1), p, y, ids=two) == result(GAUC("user"), p, y, user=users)
    with pytest.raises(KeyError, match="gauc needs the column 'user'; there are none"):
        result(GAUC("user"), p, y)


def test_slot_auc_looks_at_rows_that_have_the_slot() -> None:
    p, y = clicks(3000)
    ids = np.random.default_rng(2).integers(0, 3, (3000, 2)).astype(np.uint64)
    got = result(SlotAUC("ids", ("a", "b"), absent=(0, 2), bins=100_000), p, y, ids=ids)
    for j, (name, absent) in enumerate((("a", 0), ("b", 2))):
        here = ids[:, j] != absent
        assert got[name] == pytest.approx(sk.roc_auc_score(y[here], p[here]), abs=1e-9)


def test_copc_by_slot_and_by_value_is_that_of_their_rows() -> None:
    p, y = clicks(3000)
    rng = np.random.default_rng(2)
    ids, weight = rng.integers(0, 3, (3000, 2)).astype(np.uint64), rng.integers(1, 4, 3000).astype(np.float32)
    slots = SlotCOPC("ids", ("a", "b"), absent=(0, 2))
    got = result(slots, p, y, ids=ids, weight=weight)
    for j, (name, absent) in enumerate((("a", 0), ("b", 2))):
        here = ids[:, j] != absent
        assert got[name] == result(copc(), p[here], y[here], weight=weight[here])
    by = result(COPCBy("ids", element=1), p, y, ids=ids, weight=weight)
    sizes = [weight[ids[:, 1] == value].sum() for value in range(3)]
    assert list(by) == sorted(range(3), key=lambda value: -sizes[value])
    for value, found in by.items():
        here = ids[:, 1] == value
        assert found == pytest.approx(result(copc(), p[here], y[here], weight=weight[here]), rel=1e-9)
    nobody = result(slots, p[:0], y[:0], ids=ids[:0])
    assert math.isnan(nobody["a"])
    assert COPCBy("ids").result(COPCBy("ids").init()) == {}


def plain_bucket_error(p: np.ndarray, y: np.ndarray, bins: int) -> float:
    at = np.minimum((p.astype(np.float64) * bins).astype(int), bins - 1)
    buckets: list[tuple[float, float, float]] = []
    bucket: list[int] = []
    for i in range(bins):
        if bucket and i / bins - bucket[0] / bins > 0.01:
            bucket = []
        bucket.append(i)
        inside = np.isin(at, bucket)
        shows, predicted = inside.sum(), at[inside].mean() / bins if inside.any() else 0.0
        if predicted > 0 and math.sqrt((1 - predicted) / (predicted * shows)) < 0.05:
            buckets.append((shows, predicted, y[inside].mean(dtype=np.float64)))
            bucket = []
    return sum(n * abs(actual / predicted - 1) for n, predicted, actual in buckets) / sum(n for n, _, _ in buckets)


def test_bucket_error() -> None:
    p, y = clicks(200_000)
    assert result(BucketError(bins=200), p, y) == pytest.approx(plain_bucket_error(p, y, 200), rel=1e-9)
    calibrated, off = result(BucketError(), p, y), result(BucketError(), p * 0.5, y)
    assert calibrated < 0.1 < 0.8 < off


def test_the_vendors_bundle() -> None:
    p, y = np.array([0.25, 0.5]), np.array([0.0, 1.0])
    got = result(ctr_bundle(), p, y)
    q = 1 / (1 + math.exp(-0.25)) + 1 / (1 + math.exp(-0.5))
    assert got == pytest.approx({"sqrerr": 0.3125, "abserr": 0.75, "prob": 0.75, "q": q, "pos": 1.0, "total": 2.0})


def test_a_prediction_that_is_nan_makes_the_mean_nan() -> None:
    for name in ("logloss", "mae", "rmse", "exact_auc", "copc"):
        assert math.isnan(result(metric(name), np.array([0.5, np.nan, 0.1]), np.array([1.0, 0.0, 0.0]))), name


def test_sets_of_metrics_run_merge_and_reset() -> None:
    p, y = clicks(1000)
    whole, left, right = (Running(["auc", "logloss", GAUC("user")]) for _ in range(3))
    user = np.arange(1000) % 10
    whole.update(p, y, user=user)
    left.update(p[:300], y[:300], user=user[:300])
    right.update(p[300:], y[300:], user=user[300:])
    left.absorb(right.states, right.rows)
    assert left.results() == whole.results()
    assert left.rows == 1000
    left.reset()
    assert left.rows == 0
    assert math.isnan(left.results()["auc"])
    with pytest.raises(ValueError, match="two metrics are called 'auc'"):
        MetricSet.of(["auc", "auc"])
