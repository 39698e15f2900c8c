"""Kinds of somebody else's travel with the job that uses them: a worker need not import the program they stand in."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from heterps.graph import Graph, OpKind
from heterps.graph.kinds import kind, take_over_kind
from heterps.kernels import Kernel, kernels
from heterps.kernels.kernel import take_over_kernel

__all__ = ["OwnKinds"]

_HERE = uuid.uuid4().hex  # this process


@dataclass(frozen=True)
class OwnKinds:
    """Kinds, and their kernels where they have one, that no module of heterps registers."""

    kinds: tuple[tuple[OpKind, Kernel | None], ...] = ()
    process: str = field(default=_HERE)

    @classmethod
    def of(cls, graph: Graph) -> OwnKinds:
        """Return those that a graph uses."""
        used = (kind(name) for name in sorted({op.kind for op in graph}))
        own = [each for each in used if not each.infer.__module__.startswith("heterps.")]
        return cls(tuple((each, kernels().get(each.name)) for each in own))

    def install(self) -> None:
        """Make them known here, in place of others that came with an earlier job; where they come from they are."""
        if self.process == _HERE:
            return
        for each, its_kernel in self.kinds:
            take_over_kind(each)
            if its_kernel is not None:
                take_over_kernel(each.name, its_kernel)
