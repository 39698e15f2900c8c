"""Peepholes: small named rewrites of the steps of a program. Each keeps every result that anybody can see.

Two more savings need no rewrite and live where buffers are laid out (:mod:`heterps.kernels.program.bound`): inputs of a concat
are written into the concat's buffer to begin with, and their gradients are views of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from heterps.graph.builtin import axes_of
from heterps.graph.types import Form, TensorType
from heterps.kernels.kernel import FUSED, kernel
from heterps.kernels.program.steps import Scope, Step

__all__ = ["PEEPHOLES", "fuse"]


def sum_into_gather(scope: Scope) -> Scope:
    """A sum over the slots of gathered rows is a gather with sum pooling: the rows are never laid out."""
    pairs = _pairs(scope, "gather_pool", ("sum",))
    return _replaced(scope, [(a, b, _summed(a, b)) for a, b in pairs if _sums_slots(scope, a, b)])


def _sums_slots(scope: Scope, gather: Step, total: Step) -> bool:
    rows = scope.type(gather.name)
    if rows.form is not Form.DENSE or len(rows.shape) != 2 or gather.attrs["pooling"] != "none":
        return False
    axes = axes_of(total.attrs["axis"], 2)
    return axes == (0,) or (axes == (0, 1) and rows.shape[1] == 1)


def _summed(gather: Step, total: Step) -> Step:
    attrs = {**gather.attrs, "pooling": "sum"}
    return replace(gather, name=total.name, kind="gather_pool+sum", ops=gather.ops + total.ops, attrs=attrs)


def activation_into_dense(scope: Scope) -> Scope:
    """A dense layer and its activation: one pass for bias and activation, one for slope and bias gradient."""
    pairs = _pairs(scope, "dense", ("relu",))
    return _replaced(scope, [(a, b, _activated(a, b)) for a, b in pairs])


def _activated(dense: Step, activation: Step) -> Step:
    kind = f"{dense.kind}+{activation.kind}"
    return replace(dense, name=activation.name, kind=kind, ops=dense.ops + activation.ops, kernel=FUSED[kind])


def concat_before_interaction(scope: Scope) -> Scope:
    """Vectors that interact are laid side by side by a concat of their own, which most of them can be written into."""
    steps: list[Step] = []
    added, wanted = dict(scope.added), set(scope.wanted)
    for step in scope.steps:
        if step.kind != "dot_interaction" or len(step.inputs) == 1:
            steps.append(step)
            continue
        name, types = f"{step.name} side by side", [scope.type(source) for source in step.inputs]
        added[name] = TensorType((sum(math.prod(t.shape) for t in types),))
        steps.append(Step(name, "concat", step.ops, kernel("concat"), {"axis": None}, step.inputs, None))
        kind, attrs = "concat+dot_interaction", {"dim": types[0].shape[-1]}
        steps.append(replace(step, kind=kind, kernel=FUSED[kind], attrs=attrs, inputs=(name,)))
        wanted |= {name} if step.name in scope.wanted else set()
    return replace(scope, steps=tuple(steps), added=added, wanted=frozenset(wanted))


def _pairs(scope: Scope, first: str, second: tuple[str, ...]) -> list[tuple[Step, Step]]:
    """Steps of the first kind whose result is read by one step only, of the second kind, and by nobody outside."""
    found = []
    for step in scope.steps:
        readers = scope.consumers(step.name)
        if step.kind == first and len(readers) == 1 and step.name not in scope.outputs:
            reader = readers[0][0]
            if reader.kind in second:
                found.append((step, reader))
    return found


def _replaced(scope: Scope, changes: list[tuple[Step, Step, Step]]) -> Scope:
    """Put each new step in the place of the second of its pair."""
    gone = {first.name for first, _, _ in changes}
    new = {second.name: step for _, second, step in changes}
    steps = tuple(new.get(step.name, step) for step in scope.steps if step.name not in gone)
    return replace(scope, steps=steps)


PEEPHOLES: tuple[Callable[[Scope], Scope], ...] = (
    sum_into_gather,
    activation_into_dense,
    concat_before_interaction,
)


def fuse(scope: Scope, *, peepholes: tuple[Callable[[Scope], Scope], ...] = PEEPHOLES) -> Scope:
    """Apply the peepholes one after another."""
    for peephole in peepholes:
        scope = peephole(scope)
    return scope
