"""Which part of a model a batch passes: to train, all of it or its first stage; to read, what leads to the wanted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from heterps.graph import Graph
from heterps.kernels.program.steps import scope_of
from heterps.metrics import Metric
from heterps.runtime.batch.device_program import DeviceProgram
from heterps.runtime.batch.devices import ChosenDevice
from heterps.runtime.batch.job import PREDICTION, Job
from heterps.stages.lowering import Group, pull_name

__all__ = ["Walk"]


@dataclass(frozen=True, eq=False)
class Walk:
    """What a bench does with its batches.

    Parameters
    ----------
    graph
        Lowered; its outputs are the tensors that forward returns.
    ops
        What runs; None for all.
    groups
        Row groups whose rows are pulled.
    metrics
        Kept over the batches.
    train
        Whether backward follows, new ids get rows and dropout drops.
    unread
        Inputs that are not fed: the loss alone reads them, and nobody reads the loss.
    """

    graph: Graph
    ops: tuple[str, ...] | None
    groups: tuple[Group, ...]
    metrics: tuple[Metric, ...] = ()
    train: bool = True
    unread: frozenset[str] = frozenset()

    @classmethod
    def training(cls, job: Job) -> Walk:
        """Run what runs where the data is read."""
        lowered = job.model.lowered
        return cls(lowered.graph, None if job.fused else job.stages[0], lowered.groups, job.metrics)

    @classmethod
    def reading(cls, job: Job, metrics: Sequence[Metric], sources: Collection[str]) -> Walk:
        """Run forward what leads to something wanted: item vectors need no columns of the user's side."""
        lowered = job.model.lowered
        graph = lowered.graph
        tensors = {op for op in sources if op in graph and graph[op].kind != "input"}
        roots = tensors | ({graph.loss} if metrics or PREDICTION in sources else set())
        needed = graph.upstream(*roots)
        named = Graph.from_ops(graph.ops, graph.loss, {name: name for name in tensors})
        ops = tuple(op.name for op in graph if op.name in needed)
        feeds = set(scope_of(named, ops).feeds)
        groups = tuple(group for group in lowered.groups if pull_name(group) in feeds)
        unread = _only_for_loss(graph, 2 if metrics else 1)
        return cls(named, ops, groups, tuple(metrics), train=False, unread=unread)

    @property
    def feeds(self) -> tuple[str, ...]:
        """What a batch must bring."""
        ops = [op.name for op in self.graph] if self.ops is None else self.ops
        return tuple(name for name in scope_of(self.graph, ops).feeds if name not in self.unread)

    def program(self, batch_size: int, device: ChosenDevice) -> DeviceProgram:
        """Compile it for a device."""
        return DeviceProgram(self.graph, self.ops, batch_size, device)


def _only_for_loss(graph: Graph, first: int) -> frozenset[str]:
    """Label and weight, or the weight alone: predictions do not need them, and come out the same with and without.

    Metrics take the label, and a weight if there is one, from the batch.
    """
    others = graph[graph.loss].inputs[first:]
    return frozenset(name for name in others if [op.name for op in graph.consumers(name)] == [graph.loss])
