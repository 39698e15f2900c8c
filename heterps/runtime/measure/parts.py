"""What the parts of a batch take, one after another as in training, so that caches hold what they hold there."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.device import synchronize, to_device
from heterps.kernels import Program
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.device_program import moved
from heterps.runtime.batch.devices import CPU, ChosenDevice
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import PushedGradients, Wanted, sum_pushed
from heterps.runtime.batch.phases import Phases
from heterps.runtime.workers.shard_host import ShardHost
from heterps.stages import Layer, layers_of
from heterps.stages.drawn import drawing_ops
from heterps.tables import N_SHARDS

__all__ = ["Parts", "PartsTaken"]

F32 = npt.NDArray[np.float32]
_SECONDS = 1.5  # of processor time for one pass over the batches; at least two batches are timed


@dataclass
class PartsTaken:
    """Median seconds per batch: of table parts, with the items they are counted in, and of Layers.

    And of a row: that is new, over one that is there; that is added to those of other lanes.
    """

    rows: float
    items: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    layers: dict[str, float] = field(default_factory=dict)
    create_s: float = 0.0
    merge_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values()) + sum(self.layers.values())


class Parts:
    """A bench, a shard host and a program per Layer of one thread, with batches to run through them."""

    def __init__(self, model: Model, batches: Sequence[Batch], n: int, device: ChosenDevice = CPU) -> None:
        job = Job(model, n, Async())
        self._batches, self._n = batches, n
        self._bench = Workbench(job, phases=Phases(time.thread_time), device=CPU)  # Layers compute instead
        self._host = ShardHost(job, 0, -1, lambda event: None)
        self._host.fresh(range(N_SHARDS))
        computing = [layer for layer in layers_of(model.graph).layers if _computes(model, layer)]
        self._layers = [_Step(model, layer, n, device) for layer in computing]
        self._keys = (BatchKey(0, 0, n) for n in itertools.count())
        self._clock: dict[str, list[float]] = {}
        self._items: dict[str, list[float]] = {}
        self._made: list[int] = []  # rows that each batch brought into the tables
        self._before: PushedGradients | None = None  # of the last batch, for what adding two lanes up takes

    def measure(self) -> PartsTaken:
        """Run all batches once to fill tables and caches, then time them."""
        self._pass()
        pulls, made = self._clock["pull"], self._made
        self._clock, self._items, self._made = {}, {}, []
        self._pass()
        median = {name: statistics.median(times) for name, times in self._clock.items()}
        merge_s = median.pop("merge")
        layers = {step.name: median.pop(step.name) for step in self._layers}
        items = {name: statistics.mean(counts) for name, counts in self._items.items()}
        create_s = _create_s(pulls, made, median["pull"])
        return PartsTaken(float(self._n), items, median, layers, create_s, merge_s / max(items["merge"], 1.0))

    def _pass(self) -> None:
        until = time.thread_time() + _SECONDS
        for i, batch in enumerate(self._batches):
            self._run(batch)
            if i and time.thread_time() > until:
                break

    def _run(self, batch: Batch) -> None:
        """Take a batch the way of training, but Layer by Layer where that computes all at once."""
        bench, shard = self._bench, self._host.shard
        assert shard is not None
        bench.phases.take()
        before = sum(map(len, shard.groups.values()))
        work = bench.begin(batch)
        unique = sum(map(len, work.routed.values()))
        self._add("dedupe", sum(len(r.inverse) for r in work.routed.values()), bench.phases.take()["deduplicate"])
        with self._timed("pull", unique):
            wanted = bench.copy.wanted(work, 0)
            assert wanted is not None  # the bench has no copy of its own
            work.pulled[0] = self._host.read(replace(wanted, dense=None))
        self._made.append(sum(map(len, shard.groups.values())) - before)
        for step in self._layers:
            feeds = step.feeds(bench, work)
            with self._timed(step.name, self._n, step.clock):
                step.run(feeds)
        self._make_up_gradients(work)
        with self._timed("push", unique):
            pushed = bench.copy.settle(work.key, [work], 0)
            shard.apply(next(self._keys), pushed.rows)
        self._merge(pushed, unique)
        with self._timed("dense", len(work.dense)):
            shard.apply(next(self._keys), None, pushed.dense)
            self._host.read(Wanted({}, dense=wanted.dense))
        bench.free(work)

    def _merge(self, pushed: PushedGradients, unique: int) -> None:
        """Add the gradients of two batches up as those of two lanes are, which are kept until both are there."""
        if self._before is not None:
            start = time.thread_time()
            sum_pushed([self._before.copy(), pushed.copy()])
            self._add("merge", unique, (time.thread_time() - start) / 2)
        self._before = pushed.copy()

    def _make_up_gradients(self, work: BatchWork) -> None:
        """Values of rows are as good as gradients; Layers ran apart and have left none."""
        work.gradient.fill(1e-3)
        groups = self._bench.walk.groups
        work.row_gradients = {group.name: work.rows(group.name, group.width) for group in groups}

    @contextmanager
    def _timed(self, name: str, items: float, clock: Callable[[], float] = time.thread_time) -> Iterator[None]:
        start = clock()
        yield
        self._add(name, items, clock() - start)

    def _add(self, name: str, items: float, seconds: float) -> None:
        self._clock.setdefault(name, []).append(seconds)
        self._items.setdefault(name, []).append(float(items))


class _Step:
    """One batch of a Layer, forward and backward, on values like those of training."""

    def __init__(self, model: Model, layer: Layer, n: int, device: ChosenDevice) -> None:
        self.name, self._model, self._n, self._device = layer.name, model, n, device
        # A thread that waits for a device takes no processor time.
        self.clock = time.thread_time if device.xp is np else time.perf_counter
        with device.current():
            self._program = Program(model.lowered.graph, layer.ops, batch_size=n, xp=device.xp)
        self._rng = np.random.default_rng(0)
        drawn_values = self._rng.standard_normal(self._program.layout.size, dtype=np.float32) * np.float32(0.05)
        self._params = to_device(drawn_values, device.xp)
        self._given = moved({name: self._value(name, n) for name in self._program.given}, device.xp)
        graph, drawn = model.lowered.graph, {op.name for op in drawing_ops(model.graph)}
        self._read = [name for name in self._program.feeds if graph[name].kind in ("pull", "input") or name in drawn]
        self._made = {name: self._value(name, n) for name in self._program.feeds if name not in self._read}

    def feeds(self, bench: Workbench, work: BatchWork) -> dict[str, Any]:
        """Columns and rows of the batch; what other Layers would bring is made up once.

        On the device before anything is timed: a stage copies once for all its Layers.
        """
        return moved(self._made | bench.feeds(work, self._read), self._device.xp)

    def run(self, feeds: Mapping[str, Any]) -> None:
        """Forward and backward, until they are done."""
        with self._device.current():
            self._program.forward(feeds, self._params)
            self._program.backward(self._given)
            synchronize(self._device.xp)

    def _value(self, name: str, n: int) -> F32:
        shape = (n, *self._model.lowered.graph[name].type.shape)
        return self._rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)


def _create_s(pulls: Sequence[float], made: Sequence[int], again_s: float) -> float:
    """Seconds that a new row takes over one that is there; the first batch, which loads the loops, left out."""
    more = sum(max(0.0, seconds - again_s) for seconds in pulls[1:])
    return more / sum(made[1:]) if any(made[1:]) else 0.0


def _computes(model: Model, layer: Layer) -> bool:
    graph = model.lowered.graph
    return not any(graph.kind(graph[name]).access for name in layer.ops)
