"""Rules that are called by their address: as many as a group likes, from outside too, and what they raise arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numba import njit

from heterps.errors import TableError
from heterps.protocol import BatchKey
from heterps.tables import SGD, DenseSpec, GroupSpec, KeyedShard, RowGradients, Rule, TableSpec, Uniform
from heterps.tables.loops.rule_calls import address_of


@njit(nogil=True)
def _down(p, k, w, w0, s, s0, g, g0, n, scale):
    for i in range(n):
        w[w0 + i] -= g[g0 + i] // p[k, 2]


@njit(nogil=True)
def _up(p, k, w, w0, s, s0, g, g0, n, scale):
    for i in range(n):
        w[w0 + i] += g[g0 + i]


class _Scaled(Rule):
    def numbers(self, step: int) -> tuple[float, ...]:
        return (float(self.bounds is None),)


@dataclass(frozen=True)
class Down(_Scaled):
    loop: ClassVar = _down


@dataclass(frozen=True)
class Up(_Scaled):
    loop: ClassVar = _up


def pushed(*rules: Rule) -> list[float]:
    """Return the values of a row with one number for each rule, after a gradient of ones."""
    tables = tuple(TableSpec(f"t{n}", 1, rule, Uniform(0.0)) for n, rule in enumerate(rules))
    shard, ids = KeyedShard([GroupSpec("g", tables)]), np.array([7], np.uint64)
    shard.push(BatchKey(0, 0, 0), {"g": RowGradients(ids, np.ones((1, len(rules)), np.float32))})
    return shard.pull("g", ids).values[0].tolist()


def test_a_group_can_have_several_rules_from_outside() -> None:
    assert pushed(Down(), Up(), SGD(0.5), Up(bounds=(-1.0, 0.25))) == [-1.0, 1.0, -0.5, 0.25]


def test_what_a_rule_raises_arrives() -> None:
    with pytest.raises(ZeroDivisionError):
        pushed(SGD(0.5), Down(bounds=(-1.0, 1.0)))


def test_a_rule_without_a_loop_is_refused_when_a_table_is_made() -> None:
    with pytest.raises(TableError, match="rule _Scaled has neither a built-in code nor a loop of its own"):
        KeyedShard([GroupSpec("g", (TableSpec("t", 1, _Scaled()),))])
    with pytest.raises(TableError, match="rule _Scaled has neither"):
        KeyedShard([], [DenseSpec("w", (2,), _Scaled())])


def test_rules_of_one_kind_share_a_loop() -> None:
    assert address_of(SGD(0.5)) == address_of(SGD(0.25)) != address_of(Up())
