"""Contraction: the pieces of the rule read literally, in time that grows with the graph, not with its square."""

import random
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType
from typing import Any

import pytest

from heterps import Graph, ops
from heterps.graph import Form
from heterps.models import wide_deep
from heterps.stages import layers_of, lower, partition
from heterps.stages.contract import _joined
from heterps.stages.draw import draw
from heterps.stages.labels import label
from heterps.stages.layers import Bound, Layers


def _random_graph(rng: random.Random) -> Graph:
    columns = [ops.input("c", dtype="uint64")]
    tensors = [ops.input("x", (8,))]
    for i in range(rng.randint(3, 25)):
        where = ops.place(rng.choice(["cpu", "gpu"])) if rng.random() < 0.15 else nullcontext()
        one, two = rng.choice(tensors), rng.choice(tensors)
        makers: list[Callable[[], ops.Tensor]] = [
            lambda one=one: ops.relu(one),
            lambda one=one, two=two: ops.add(one, two),
            lambda one=one: ops.dense(one, 8),
            lambda: ops.lookup(rng.choice(columns), rng.choice("tuv"), 8),
        ]
        with where:
            if rng.random() < 0.2:
                columns.append(ops.input(f"c{i}", dtype="uint64"))
            tensors.append(rng.choice(makers)())
    last = ops.add(*rng.sample(tensors, 2), tensors[-1])
    return Graph(ops.logloss(ops.dense(last, 1), ops.input("y")))


def _literally(graph: Graph, ridge: float) -> set[frozenset[str]]:
    """Rule 3 of contract.py, asked of every op in every round, with nothing remembered."""
    labels = label(graph, 64, 0.4, ridge)
    owner = {op.name: "\0data" if graph.kind(op).access == "file" else op.name for op in graph}
    stable = {op.name for op in graph if labels[op.name].forced or op.kind == "gather_pool"}
    above = {n for n, one in labels.items() if one.bound is Bound.COMPUTE and graph[n].type.form is not Form.SCALAR}
    changed = True
    while changed:
        changed = False
        for op in graph:
            mine = owner[op.name]
            group = [name for name, o in owner.items() if o == mine]
            if any(name in stable or name in above for name in group):
                continue
            sources = {owner[s] for name in group for s in graph[name].inputs} - {mine}
            targets = {owner[r.name] for r in graph if r.name not in group and set(r.inputs) & set(group)}
            reads = {o for n, o in owner.items() if graph.kind(graph[n]).access}
            if len(sources) == 1 and not sources & reads:
                (host,) = sources
            elif len(targets) == 1 and not targets & stable:
                (host,) = targets
            else:
                continue
            if len({graph[n].place for n, o in owner.items() if o in (mine, host)} - {None}) <= 1:
                owner = {name: host if o == mine else o for name, o in owner.items()}
                changed = True
    return {frozenset(n for n, o in owner.items() if o == one) for one in owner.values()}


@pytest.mark.parametrize("seed", range(60))
def test_pieces_are_those_of_the_rule(seed: int) -> None:
    graph = _random_graph(random.Random(seed))
    for ridge in (1.0, 5.0, 50.0):
        layers = layers_of(graph, batch_size=64, ridge=ridge)
        assert {frozenset(layer.ops) for layer in layers.layers} == _literally(lower(graph).graph, ridge)
        for i in range(len(layers.layers)):
            crossing = {e.tensor: e.forward_bytes + e.backward_bytes for e in layers.edges if e.source < i <= e.target}
            assert layers.cut_bytes(i) == pytest.approx(sum(crossing.values()))


def _chain(n: int) -> Graph:
    x = ops.input("x", (8,))
    for i in range(n):
        x = ops.relu(x) if i % 3 else ops.dense(x, 8)
    return Graph(ops.logloss(ops.dense(x, 1), ops.input("y")))


def _sums(n: int) -> Graph:
    rows = [ops.lookup(ops.input(f"c{i}", dtype="uint64"), f"t{i}", 8) for i in range(n // 3)]
    x = rows[0]
    for row in rows[1:]:
        x = ops.add(x, row)
    return Graph(ops.logloss(ops.dense(x, 1), ops.input("y")))


def _fan(n: int) -> Graph:
    rows = [ops.lookup(ops.input(f"c{i}", dtype="uint64"), f"t{i % 50}", 8) for i in range(n // 2)]
    return Graph(ops.logloss(ops.dense(ops.concat(*rows), 1), ops.input("y")))


def _everything(make: Callable[[int], Graph], n: int) -> int:
    """Do all that is done with a graph before it is planned; return how many lines of Python that ran."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        graph = make(n)
        Graph.from_json(graph.to_json())
        layers: Layers = layers_of(graph)
        for i in range(len(layers.layers)):
            layers.cut_bytes(i)
        draw(partition(layers))
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("make", [_chain, _sums, _fan])
def test_four_times_the_ops_take_about_four_times_as_many_lines(make: Callable[[int], Graph]) -> None:
    _everything(make, 20)
    small, large = _everything(make, 100), _everything(make, 400)
    assert large < 6 * small  # 16 times if it grew with the square


def test_ops_are_joined_once_for_all_batch_sizes_at_which_the_same_bounds_them() -> None:
    graph = wide_deep()
    _joined.cache_clear()
    every = [layers_of(graph, batch_size=size) for size in (1024, 2048, 4096, 8192)]
    assert {tuple(layer.ops for layer in layers.layers) for layers in every} == {
        tuple(layer.ops for layer in every[0].layers)
    }
    assert _joined.cache_info().misses == 1
