"""Each rule against a few lines of NumPy written from its formula, in float64, over several steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numba import njit

from heterps.protocol import BatchKey
from heterps.tables import (
    FTRL,
    RULES,
    SGD,
    AdaGrad,
    Adam,
    DenseSpec,
    ElementAdaGrad,
    Exponential,
    GroupSpec,
    KeyedShard,
    Momentum,
    RowGradients,
    RowWiseAdaGrad,
    Rule,
    SharedAdam,
    StdAdaGrad,
    Steps,
    Sum,
    TableSpec,
    Uniform,
    Warmup,
)
from heterps.testing import RuleContract
from heterps.testing.rule_contract import Formula


def sgd(w, s, g, scale):
    return w - 0.1 * g


def adagrad(w, s, g, scale):
    g, total = g / scale, s.setdefault("G", 0.0)
    s["G"] = total + np.mean(g**2)
    return w - 0.1 * g * math.sqrt(3 / (3 + total))


def std_adagrad(w, s, g, scale):
    g, total = g / scale, s.setdefault("G", np.zeros_like(w))
    s["G"] = total + g**2
    return w - 0.1 * g * np.sqrt(3 / (3 + total))


def element_adagrad(w, s, g, scale):
    s["G"] = s.get("G", 0.5) + g**2
    return w - 0.1 * g / (np.sqrt(s["G"]) + 1e-10)


def row_wise(w, s, g, scale):
    s["G"] = s.get("G", 0.0) + np.mean(g**2)
    return w - 0.1 * g / (math.sqrt(s["G"]) + 1e-8)


def adam(w, s, g, scale):
    t = s["t"] = s.get("t", 0) + 1
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.99 * s.get("v", 0) + 0.01 * g**2
    return w - 0.1 * math.sqrt(1 - 0.99**t) / (1 - 0.9**t) * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def shared_adam(w, s, g, scale):
    t = s["t"] = s.get("t", 0) + 1
    m = 0.9 * s.get("m", 0) + 0.1 * g
    v = 0.99 * s.get("v", 0) + 0.01 * g**2
    s["m"], s["v"] = m.mean(), v.mean()
    return w - 0.1 * math.sqrt(1 - 0.99**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)


def ftrl(w, s, g, scale):
    n, z = s.get("n", np.zeros_like(w)), s.get("z", np.zeros_like(w))
    s["z"] = z + g - (np.sqrt(n + g**2) - np.sqrt(n)) / 0.1 * w
    s["n"] = n + g**2
    shrunk = -(s["z"] - np.sign(s["z"]) * 0.3) / ((1 + np.sqrt(s["n"])) / 0.1 + 0.2)
    return np.where(np.abs(s["z"]) <= 0.3, 0, shrunk)


def momentum(w, s, g, scale):
    s["v"] = 0.9 * s.get("v", 0) + g + 0.01 * w
    return w - 0.1 * s["v"]


def add(w, s, g, scale):
    return w + g


FORMULAS: list[tuple[Rule, Formula]] = [
    (SGD(0.1), sgd),
    (AdaGrad(0.1), adagrad),
    (StdAdaGrad(0.1), std_adagrad),
    (ElementAdaGrad(0.1, initial=0.5), element_adagrad),
    (RowWiseAdaGrad(0.1), row_wise),
    (Adam(0.1, beta2=0.99), adam),
    (SharedAdam(0.1, beta2=0.99), shared_adam),
    (FTRL(0.1, l1=0.3, l2=0.2), ftrl),
    (Momentum(0.1, l2=0.01), momentum),
    (Sum(), add),
]


class TestBuiltInRules(RuleContract):
    rules = FORMULAS


def test_every_registered_rule_has_a_formula() -> None:
    assert {name for name in RULES if RULES[name].__module__.startswith("heterps.")} == {
        type(rule).__name__ for rule, _ in FORMULAS
    }


def test_schedules_change_the_rate_by_applied_steps() -> None:
    for schedule in (Warmup(0.1, 3), Exponential(0.1, 0.5, 2), Steps((0, 2), (0.1, 0.01))):
        rule = SGD(schedule)
        assert RULES.from_json(rule.to_json()) == rule
        shard = KeyedShard([GroupSpec("g", (TableSpec("a", 1, rule, Uniform(0.0)),))], [DenseSpec("w", (1,), rule)])
        ids, one = np.array([7], np.uint64), np.ones((1, 1), np.float32)
        for step in range(5):
            shard.push(BatchKey(0, 0, step), {"g": RowGradients(ids, one)}, one.ravel())
        expected = -sum(schedule(step) for step in range(5))
        assert shard.pull("g", ids).values[0, 0] == pytest.approx(expected, rel=1e-5)
        assert shard.pull_dense()[0] == pytest.approx(expected, rel=1e-5)


@njit(nogil=True)
def _sign_loop(p, k, w, w0, s, s0, g, g0, n, scale):
    for i in range(n):
        s[s0] += np.float32(1)
        w[w0 + i] -= p[k, 2] * np.sign(g[g0 + i])


@RULES.add
@dataclass(frozen=True)
class MySign(Rule):
    loop: ClassVar = _sign_loop
    lr: float = 0.1

    def slots(self, n: int) -> int:
        return 1

    def numbers(self, step: int) -> tuple[float, ...]:
        return (self.lr,)


def sign(w, s, g, scale):
    return w - 0.5 * np.sign(g)


class TestRuleFromOutside(RuleContract):
    rules = ((MySign(0.5), sign),)


def test_a_rule_from_outside_works_beside_built_in_ones() -> None:
    group = GroupSpec("g", (TableSpec("a", 2, MySign(0.5), Uniform(0.0)), TableSpec("b", 2, SGD(1.0), Uniform(0.0))))
    shard = KeyedShard([group], [DenseSpec("w", (2,), MySign(0.25))])
    ids = np.array([1, 2], np.uint64)
    g = np.array([[3, -3, 3, -3], [0, 1, 0, 1]], np.float32)
    shard.push(BatchKey(0, 0, 0), {"g": RowGradients(ids, g)}, np.array([5, -5], np.float32))
    np.testing.assert_array_equal(shard.pull("g", ids).values, [[-0.5, 0.5, -3, 3], [0, -0.5, 0, -1]])
    np.testing.assert_array_equal(shard.pull_dense(), [-0.25, 0.25])
    assert RULES.from_json(MySign(0.5).to_json()) == MySign(0.5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=4, max_size=4))
def test_rows_with_nan_or_inf_are_skipped_and_counted(bad: list[float]) -> None:
    shard = KeyedShard([GroupSpec("g", (TableSpec("a", 4, Adam(), Uniform(0.1)),))], [DenseSpec("w", (2, 4), Adam())])
    ids = np.arange(3, dtype=np.uint64)
    before, dense_before = shard.pull("g", ids).values.copy(), shard.pull_dense()
    g = np.ones((3, 4), np.float32)
    g[1] = bad
    dense = np.ones(8, np.float32)
    dense[4:] = bad
    applied = shard.push(BatchKey(0, 0, 0), {"g": RowGradients(ids, g)}, dense)
    finite = bool(np.isfinite(g[1]).all())
    assert applied.skipped == (0 if finite else 2)
    after = shard.pull("g", ids).values
    assert (after[[0, 2]] != before[[0, 2]]).all()
    if not finite:
        np.testing.assert_array_equal(after[1], before[1])
        np.testing.assert_array_equal(shard.pull_dense()[4:], dense_before[4:])
