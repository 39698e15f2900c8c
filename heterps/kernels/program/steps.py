"""What a program has to do: which ops run, what is fed, what leaves, and which gradients anybody wants.

A tensor's gradient is wanted where parameters or table rows lie upstream of it and the loss downstream, in the whole
graph: so the pieces of a cut graph agree on what crosses the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heterps.graph import Graph, Op
from heterps.graph.types import Form, TensorType
from heterps.kernels.kernel import Kernel, kernel

__all__ = ["Scope", "Step", "scope_of"]


@dataclass(frozen=True)
class Step:
    """One kernel to run: an op, or several fused into one."""

    name: str  # the op whose result it yields
    kind: str  # an op kind, or the name of a fusion
    ops: tuple[str, ...]
    kernel: Kernel
    attrs: Mapping[str, Any]
    inputs: tuple[str, ...]
    param_op: str | None  # the op whose parameters it uses


@dataclass(frozen=True)
class Scope:
    """A part of a graph as a program sees it.

    ``feeds`` come from outside, ``outputs`` are read outside (or are the loss), ``wanted`` are all tensors here whose
    gradient is computed, ``given`` the outputs whose gradient comes back from outside. ``added`` are types of tensors
    that the graph does not have and a rewrite brought in.
    """

    graph: Graph
    steps: tuple[Step, ...]
    feeds: tuple[str, ...]
    outputs: tuple[str, ...]
    wanted: frozenset[str]
    given: tuple[str, ...]
    added: Mapping[str, TensorType] = field(default_factory=dict)

    def type(self, name: str) -> TensorType:
        """Type of a tensor."""
        return self.added[name] if name in self.added else self.graph[name].type

    def consumers(self, name: str) -> list[tuple[Step, int]]:
        """Steps that read a tensor and at which place, in order; a step that reads it twice is listed twice."""
        return [(step, i) for step in self.steps for i, source in enumerate(step.inputs) if source == name]


def scope_of(graph: Graph, ops: Iterable[str] | None = None) -> Scope:
    """Work out what running ``ops`` of a lowered graph (None: all) takes and gives."""
    inside = {op.name for op in graph.ops} if ops is None else {graph[name].name for name in ops}
    run = [op for op in graph.ops if op.name in inside and kernel(op.kind).forward is not None]
    made = {op.name for op in run}
    steps = tuple(_step(graph, op) for op in run)
    outside = [op for op in graph.ops if op.name not in made]
    read_outside = {source for op in outside for source in op.inputs}
    named = set(graph.outputs.values()) | {graph.loss}
    trained = _trained(graph)
    outputs = tuple(op.name for op in run if op.name in read_outside | named)
    return Scope(
        graph,
        steps,
        _feeds(graph, run, made),
        outputs,
        frozenset(trained & ({source for op in run for source in op.inputs} | made)),
        tuple(name for name in outputs if name in trained and _read_by_trained(name, outside, trained)),
    )


def _step(graph: Graph, op: Op) -> Step:
    found = kernel(op.kind)
    return Step(op.name, op.kind, (op.name,), found, op.attrs, op.inputs, op.name if graph.params(op) else None)


def _feeds(graph: Graph, run: list[Op], made: set[str]) -> tuple[str, ...]:
    read = {
        source
        for op in run
        for i, source in enumerate(op.inputs)
        if source not in made and i not in kernel(op.kind).unread
    }
    return tuple(op.name for op in graph.ops if op.name in read)


def _trained(graph: Graph) -> set[str]:
    """Tensors with parameters or rows upstream and the loss downstream."""
    trainable: set[str] = set()
    for op in graph.ops:
        own = op.type.form is Form.ROWS or bool(graph.params(op))
        if op.type.dtype.startswith("float") and (own or any(source in trainable for source in op.inputs)):
            trainable.add(op.name)
    return trainable & graph.upstream(graph.loss)


def _read_by_trained(name: str, outside: list[Op], trained: set[str]) -> bool:
    return any(name in op.inputs and op.name in trained for op in outside)
