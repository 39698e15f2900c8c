"""What every Rule must do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from heterps.protocol import BatchKey
from heterps.tables import RULES, DenseSpec, GroupSpec, KeyedShard, RowGradients, Rule, TableSpec, Uniform

__all__ = ["Formula", "RuleContract"]

Floats = npt.NDArray[np.float64]
#: ``formula(w, state, g, shows)`` returns a row after gradient ``g``, and keeps what it likes in ``state``.
Formula = Callable[[Floats, dict[str, Any], Floats, float], Floats]


class RuleContract:
    """Derive, and give each rule with its formula in plain NumPy.

    Attributes
    ----------
    rules
        Pairs of a rule and a function of (values, state, gradient, shows) in float64, written from the paper and not
        from the compiled loop.
    """

    rules: ClassVar[Sequence[tuple[Rule, Formula]]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each rule."""
        if "rule" in metafunc.fixturenames:
            names = [type(rule).__name__ for rule, _ in self.rules]
            metafunc.parametrize(("rule", "formula"), self.rules, ids=names)

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    def test_sparse_rows_follow_the_formula(self, rule: Rule, formula: Formula, dtype: str) -> None:
        rng = np.random.default_rng(3)
        ids = rng.choice(10**9, 150, replace=False).astype(np.uint64)
        tables = (_table("a", 9, rule, dtype), _table("b", 1, rule, dtype))
        shard = KeyedShard([GroupSpec("g", tables)], seed=5)
        w = shard.pull("g", ids).values.astype(np.float64)
        state: list[list[dict[str, Any]]] = [[{}, {}] for _ in ids]
        for step in range(4):
            g = rng.normal(size=w.shape).astype(np.float32)
            show = rng.integers(1, 4, len(ids)).astype(np.float32)
            for i in range(len(ids)):
                for k, cols in enumerate((slice(0, 9), slice(9, 10))):
                    w[i, cols] = formula(w[i, cols], state[i][k], g[i, cols].astype(np.float64), float(show[i]))
            if dtype == "float16":
                w = w.astype(np.float16).astype(np.float64)
            shard.push(BatchKey(0, 0, step), {"g": RowGradients(ids, g, show=show)})
            tolerance = 2e-5 if dtype == "float32" else 2e-3
            np.testing.assert_allclose(shard.pull("g", ids).values, w, rtol=tolerance, atol=tolerance)

    def test_dense_parameters_follow_the_formula(self, rule: Rule, formula: Formula) -> None:
        rng = np.random.default_rng(4)
        shard = KeyedShard(dense=[DenseSpec("w", (70, 5), rule, Uniform(0.5)), DenseSpec("b", (3,), rule)], seed=5)
        w = shard.pull_dense().astype(np.float64)
        rows = [slice(5 * i, 5 * i + 5) for i in range(70)] + [slice(350, 353)]
        state: list[dict[str, Any]] = [{} for _ in rows]
        for step in range(3):
            g = rng.normal(size=353).astype(np.float32)
            for kept, cols in zip(state, rows, strict=True):
                w[cols] = formula(w[cols], kept, g[cols].astype(np.float64), 1.0)
            shard.push(BatchKey(0, 0, step), dense=g)
            np.testing.assert_allclose(shard.pull_dense(), w, rtol=2e-5, atol=2e-5)

    def test_bounds_hold(self, rule: Rule, formula: Formula) -> None:
        bounded = replace(rule, bounds=(-0.05, 0.05))
        shard = KeyedShard([GroupSpec("g", (TableSpec("a", 4, bounded, Uniform(0.01)),))])
        ids = np.arange(20, dtype=np.uint64)
        for step in range(5):
            g = np.full((20, 4), (-1) ** step * 9.0, np.float32)
            shard.push(BatchKey(0, 0, step), {"g": RowGradients(ids, g)})
            assert np.abs(shard.pull("g", ids).values).max() <= np.float32(0.05)

    def test_a_row_with_nan_or_inf_is_skipped_and_counted(self, rule: Rule, formula: Formula) -> None:
        shard = KeyedShard([GroupSpec("g", (_table("a", 4, rule),))])
        ids = np.arange(3, dtype=np.uint64)
        before = shard.pull("g", ids).values.copy()
        for step, bad in enumerate((np.nan, np.inf)):
            g = np.full((3, 4), 0.5, np.float32)
            g[1, 2] = bad
            assert shard.push(BatchKey(0, 0, step), {"g": RowGradients(ids, g)}).skipped == 1
        after = shard.pull("g", ids).values
        np.testing.assert_array_equal(after[1], before[1])
        assert np.isfinite(after).all()

    def test_a_rule_survives_json(self, rule: Rule, formula: Formula) -> None:
        assert RULES.from_json(rule.to_json()) == rule
        assert len(rule.first_slots(7)) == rule.slots(7)


def _table(name: str, dim: int, rule: Rule, dtype: Any = "float32") -> TableSpec:
    return TableSpec(name, dim, rule, Uniform(0.5), dtype=dtype)
