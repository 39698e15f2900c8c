"""Metrics merge exactly and equal scikit-learn's on the whole data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn import metrics as sk

from heterps.errors import UnknownKindError
from heterps.metrics import AUC, METRICS, Custom, ExactAUC, merge_all, metric
from heterps.metrics.exact import add_exact, merge_exact, round_exact, zero_exact


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(np.float32)
    p = np.round(np.clip(rng.normal(0.3 + 0.2 * y, 0.2), 0.001, 0.999), 3).astype(np.float32)
    return p, y


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, max_size=30), st.randoms(use_true_random=False))
def test_exact_sums_are_exact_in_any_order(values: list[float], random) -> None:  # type: ignore[no-untyped-def]
    cut = random.randint(0, len(values))
    shuffled = random.sample(values, len(values))
    once = add_exact(zero_exact(), np.array(values))
    parts = merge_exact(
        add_exact(zero_exact(), np.array(shuffled[:cut])), add_exact(zero_exact(), np.array(shuffled[cut:]))
    )
    np.testing.assert_array_equal(once, parts)
    exact = sum((Fraction(v) for v in values), Fraction(0))
    if abs(exact) < Fraction(1.7e308):
        assert round_exact(once) == float(exact)


def test_exact_sums_refuse_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="not finite"):
        add_exact(zero_exact(), np.array([1.0, math.nan]))


@pytest.mark.parametrize("name", sorted(METRICS))
def test_any_grouping_of_batches_gives_the_same_bits(name: str) -> None:
    which = metric(name)
    p, y = rows(3000)
    of_classes = name in ("acc1", "acc5", "cross_entropy")
    prediction = np.stack([1 - p, p, p * p, p / 2, p / 3, p / 4], 1) if of_classes else p
    more = {"weight": np.random.default_rng(2).random(3000), "group": np.arange(3000, dtype=np.uint64) % 7}

    def part(state, a: int, b: int):  # type: ignore[no-untyped-def]
        return which.update(state, prediction[a:b], y[a:b], **{name: column[a:b] for name, column in more.items()})

    once = which.result(part(which.init(), 0, 3000))
    states = [part(which.init(), i, i + 100) for i in range(0, 3000, 100)]
    assert once == which.result(merge_all(which, states)) == which.result(merge_all(which, states[::-1]))
    running = which.init()
    for i in range(0, 3000, 750):
        running = part(running, i, i + 750)
    assert which.result(running) == once


def test_equal_to_scikit_learn() -> None:
    p, y = rows(5000)
    w = np.random.default_rng(1).integers(1, 1000, 5000) / 1024
    wide = p.astype(np.float64)
    expected = {
        "exact_auc": sk.roc_auc_score(y, wide, sample_weight=w),
        "logloss": sk.log_loss(y, wide, sample_weight=w),
        "mse": sk.mean_squared_error(y, wide, sample_weight=w),
        "actual_ctr": np.average(y, weights=w),
        "predicted_ctr": np.average(wide, weights=w),
        "copc": (y * w).sum() / (wide * w).sum(),
        "mae": sk.mean_absolute_error(y, wide, sample_weight=w),
        "rmse": sk.root_mean_squared_error(y, wide, sample_weight=w),
        "accuracy": sk.accuracy_score(y, wide > 0.5, sample_weight=w),
    }
    for name, value in expected.items():
        which = metric(name)
        assert which.result(which.update(which.init(), p, y, weight=w)) == pytest.approx(value, rel=1e-12), name


def test_binned_auc_is_close_to_the_exact_one() -> None:
    p, y = rows(20000)
    binned, exact = AUC(), ExactAUC()
    a = binned.result(binned.update(binned.init(), p, y))
    assert a == pytest.approx(exact.result(exact.update(exact.init(), p, y)), abs=2e-4)
    coarse = AUC(bins=2)
    assert coarse.result(coarse.update(coarse.init(), p, y)) != a


def test_cross_entropy_is_the_log_loss_of_many_classes() -> None:
    rng = np.random.default_rng(5)
    p, y = rng.dirichlet(np.ones(4), 300), np.arange(300) % 4
    which = metric("cross_entropy")
    assert which.result(which.update(which.init(), p, y)) == pytest.approx(sk.log_loss(y, p))


def test_undefined_results_are_nan() -> None:
    for name, make in METRICS.items():
        which = make()
        result = which.result(which.init())
        assert np.isnan(result) if name != "ctr_bundle" else set(result.values()) == {0.0}, name
    one_class = ExactAUC()
    assert math.isnan(one_class.result(one_class.update(one_class.init(), np.array([0.5, 0.6]), np.array([1, 1]))))


def test_own_metrics_and_unknown_names() -> None:
    biggest = Custom(
        "biggest",
        lambda: {"max": np.array(-np.inf)},
        lambda state, p, y, **_: {"max": np.maximum(state["max"], p.max())},
        lambda a, b: {"max": np.maximum(a["max"], b["max"])},
        lambda state: float(state["max"]),
    )
    which = metric(biggest)
    parts = [which.update(which.init(), np.array(v), np.zeros(2)) for v in ([1.0, 2.0], [5.0, 0.0])]
    assert which.result(merge_all(which, parts)) == 5.0
    with pytest.raises(UnknownKindError, match="no metric is called 'auk'; there are acc1, acc5, accuracy"):
        metric("auk")
