"""Lookups that follow each other are done by one call of a loop: the same bits as one after another."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from heterps.graph import Graph, ops
from heterps.kernels import Program, Rows
from heterps.kernels.ops import rows as row_ops
from heterps.kernels.program.bound import BoundCalls

N, ROWS, WIDTH = 7, 11, 12
WAYS = {
    "fixed and lists": (("a", 0, "none"), ("a", 0, "sum"), ("a", 1, "sum"), ("a", 2, "mean"), ("a", 1, "mean")),
    "two tables": (("a", 1, "sum"), ("b", 1, "sum"), ("b", 0, "none"), ("a", 2, "sum")),
    "with largest": (("a", 1, "sum"), ("a", 2, "max"), ("a", 0, "mean")),
}


def graph(lookups: tuple[tuple[str, int, str], ...]) -> Graph:
    ids = [
        ops.input("fixed", (3,), "uint64"),
        *(ops.input(f"lists{k}", (), "uint64", ragged=True) for k in range(2)),
    ]
    pulls = {name: ops.build("pull", *ids, name=name, group=name, width=WIDTH, tables=(name,)) for name in "ab"}
    found = [
        ops.build("gather_pool", pulls[name], ids[source], columns=(1, 11), source=source, pooling=pooling)
        for name, source, pooling in lookups
    ]
    numbers = ops.input("x", (2,))
    return Graph(loss=ops.mse(ops.dense(ops.concat(numbers, *found), 2), ops.input("y", (2,))))


def feeds(program: Program) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    made: dict[str, Any] = {"x": rng.normal(size=(N, 2)), "y": rng.normal(size=(N, 2))}
    ends = [np.concatenate([[0], np.cumsum(rng.integers(0, 5, N))]) for _ in range(2)]
    for name in "ab":
        inverse = [rng.integers(-1, ROWS, (N, 3)), *(rng.integers(-1, ROWS, end[-1]) for end in ends)]
        values = rng.normal(size=(ROWS, WIDTH))
        made[name] = Rows(values, tuple(i.astype(np.int32) for i in inverse), (None, *ends))
    return {name: made[name] for name in program.feeds}


def results(lookups: tuple[tuple[str, int, str], ...], dtype: str) -> list[bytes]:
    program = Program(graph(lookups), batch_size=N, dtype=dtype)
    params = np.random.default_rng(4).normal(size=program.layout.size).astype(dtype)
    program.forward(feeds(program), params)
    gradients = program.backward()
    return [gradients.dense.tobytes(), *(each.tobytes() for each in gradients.inputs.values())]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", WAYS)
def test_lookups_together_give_the_bits_of_lookups_apart(way: str, dtype: str) -> None:
    with patch.object(BoundCalls, "_joined", lambda self, actions, way: actions):
        apart = results(WAYS[way], dtype)
    assert results(WAYS[way], dtype) == apart


def test_lookups_of_one_table_are_one_call() -> None:
    with patch.object(row_ops, "gather", wraps=row_ops.gather) as gathered:
        results(WAYS["fixed and lists"], "float32")
        assert gathered.call_count == 1
        results(WAYS["two tables"], "float32")
        assert gathered.call_count == 1 + 3


def test_lists_that_are_not_aligned_are_read_as_they_are() -> None:
    program = Program(graph(WAYS["fixed and lists"]), batch_size=N)
    given, params = feeds(program), np.ones(program.layout.size, np.float32)
    straight = program.forward(given, params)[program.graph.loss].copy()
    rows = given["a"]
    odd = [None if each is None else _off_by_one(each) for each in rows.offsets]
    shifted = given | {"a": Rows(rows.values, rows.inverse, tuple(odd))}
    assert program.forward(shifted, params)[program.graph.loss] == straight


def _off_by_one(array: np.ndarray) -> np.ndarray:
    """The same numbers, one byte away from where they should be."""
    raw = bytearray(array.nbytes + 1)
    raw[1:] = array.tobytes()
    return np.frombuffer(raw, array.dtype, offset=1)
