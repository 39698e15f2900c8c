"""What the parts of a batch take, one after another as in training, so that caches hold what they hold there."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.kernels import Program, Rows
from heterps.protocol.words.keys import BatchKey
from heterps.runtime.batch.feeds import ids_of, rows_of
from heterps.runtime.batch.model import Model
from heterps.stages import Layer, layers_of
from heterps.stages.lowering import pull_name
from heterps.tables import Router, RowGradients, Shard

__all__ = ["Parts", "PartsTaken"]

F32 = npt.NDArray[np.float32]
_SECONDS = 1.5  # of processor time for one pass over the batches; at least two batches are timed


@dataclass
class PartsTaken:
    """Median seconds per batch: of table parts, with the items they are counted in, and of Layers."""

    rows: float
    items: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    layers: dict[str, float] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values()) + sum(self.layers.values())


class Parts:
    """Tables, routers and a program per Layer of one thread, with batches to run through them."""

    def __init__(self, model: Model, batches: Sequence[Batch], n: int) -> None:
        self._model, self._batches, self._n = model, batches, n
        self._shard = Shard(model.groups, model.parameters, seed=0)
        self._routers = {group.name: Router() for group in model.lowered.groups}
        self._layers = [_Step(model, layer, n) for layer in layers_of(model.graph).layers if _computes(model, layer)]
        self._dense = np.full(model.layout.size, 1e-3, np.float32)
        self._keys = (BatchKey(0, 0, n) for n in itertools.count())
        self._clock: dict[str, list[float]] = {}
        self._items: dict[str, list[float]] = {}

    def measure(self) -> PartsTaken:
        """Run all batches once to fill tables and caches, then time them."""
        self._pass()
        self._clock, self._items = {}, {}
        self._pass()
        median = {name: statistics.median(times) for name, times in self._clock.items()}
        layers = {step.name: median.pop(step.name) for step in self._layers}
        return PartsTaken(float(self._n), {k: statistics.mean(v) for k, v in self._items.items()}, median, layers)

    def _pass(self) -> None:
        until = time.thread_time() + _SECONDS
        for i, batch in enumerate(self._batches):
            self._run(batch)
            if i and time.thread_time() > until:
                break

    def _run(self, batch: Batch) -> None:
        rows: dict[str, Rows] = {}
        hints: dict[str, Any] = {}
        groups, keys = self._model.lowered.groups, self._keys
        ids = {group.name: ids_of(batch, group) for group in groups}
        with self._timed("dedupe", sum(map(len, ids.values()))):
            routed = {name: self._routers[name].route(of) for name, of in ids.items()}
        unique = sum(map(len, routed.values()))
        with self._timed("pull", unique):
            for group in groups:
                pulled = self._shard.pull(group.name, routed[group.name].ids)
                rows[pull_name(group)] = rows_of(batch, group, routed[group.name], pulled.values)
                hints[group.name] = pulled.rows
        for step in self._layers:
            feeds = step.feeds(batch, rows)
            with self._timed(step.name, self._n):
                step.run(feeds)
        grads = {g.name: RowGradients(routed[g.name].ids, rows[pull_name(g)].values, hints[g.name]) for g in groups}
        with self._timed("push", unique):
            self._shard.apply(next(keys), grads)
        with self._timed("dense", len(self._dense)):
            self._shard.apply(next(keys), None, self._dense)
            self._shard.pull_dense()

    @contextmanager
    def _timed(self, name: str, items: float) -> Iterator[None]:
        start = time.thread_time()
        yield
        self._clock.setdefault(name, []).append(time.thread_time() - start)
        self._items.setdefault(name, []).append(float(items))


class _Step:
    """One batch of a Layer, forward and backward, on values like those of training."""

    def __init__(self, model: Model, layer: Layer, n: int) -> None:
        self.name, self._model, self._n = layer.name, model, n
        self._program = Program(model.lowered.graph, layer.ops, batch_size=n)
        self._rng = np.random.default_rng(0)
        self._params = self._rng.standard_normal(self._program.layout.size, dtype=np.float32) * np.float32(0.05)
        self._given = {name: self._value(name, n) for name in self._program.given}
        self._made: dict[str, F32] = {}

    def feeds(self, batch: Batch, rows: Mapping[str, Rows]) -> dict[str, Any]:
        """Columns and rows of the batch; what other Layers would bring is made up once."""
        return {name: self._feed(name, batch, rows) for name in self._program.feeds}

    def run(self, feeds: Mapping[str, Any]) -> None:
        """Forward and backward."""
        self._program.forward(feeds, self._params)
        self._program.backward(self._given)

    def _feed(self, name: str, batch: Batch, rows: Mapping[str, Rows]) -> Any:
        if name in rows:
            return rows[name]
        if name in batch.columns:
            return batch[name]
        if name not in self._made:
            self._made[name] = self._value(name, self._n)
        return self._made[name]

    def _value(self, name: str, n: int) -> F32:
        shape = (n, *self._model.lowered.graph[name].type.shape)
        return self._rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)


def _computes(model: Model, layer: Layer) -> bool:
    graph = model.lowered.graph
    return not any(graph.kind(graph[name]).access for name in layer.ops)
