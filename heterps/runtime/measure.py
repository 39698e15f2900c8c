"""Short runs on this machine that yield a Profile: kernels of each Layer, table access, reading, calls.

Every figure is the processor time of one thread (one BLAS thread), the best of a few calls: what else runs on the
machine hardly disturbs it. Nothing here trains: whole runs are left to check the forecasts with.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from heterps.data import Dataset
from heterps.graph import Form, Graph
from heterps.hardware import Pool
from heterps.kernels import Program, Rows
from heterps.planner.profile import Line, Profile, Rates, fit_fraction, fit_line
from heterps.planner.sample import Sample, sample_batches
from heterps.protocol.keys import BatchKey
from heterps.ragged import Ragged
from heterps.runtime.model import Model
from heterps.runtime.peer import DirectPeer, SocketPeer
from heterps.runtime.service import Listener, Method
from heterps.runtime.threads import available_cores
from heterps.runtime.wire import Message
from heterps.stages import Layer, layers_of
from heterps.stages.lowering import Group, pull_name
from heterps.tables import ElementAdaGrad, Router, RowGradients, Shard

__all__ = ["measure_profile", "synthetic_batch"]

Columns = Mapping[str, Any]
_SECONDS = 0.15
_CALLED_BYTES = 4 << 20
_ZIPF = 1.1
_VOCABULARY = 100_000


def measure_profile(
    graph: Graph,
    pool: Pool,
    dataset: Dataset | None = None,
    *,
    batch_sizes: tuple[int, int] = (1024, 4096),
    sockets: bool = True,
) -> Profile:
    """Measure this machine as one unit of ``pool`` for a model.

    Parameters
    ----------
    dataset
        Data to read and to take ids from; without it ids follow a Zipf law and reading is not measured.
    batch_sizes
        A small and a large one: times are taken as lines through both.
    sockets
        Workers are processes that call each other through sockets; False: they share one process, and arrays pass by
        reference.
    """
    sample = None if dataset is None else sample_batches(graph, _batches(dataset, batch_sizes[-1]), most_rows=50_000)
    data = {n: synthetic_batch(graph, n) if dataset is None else next(_batches(dataset, n)) for n in batch_sizes}
    with threadpool_limits(1):
        rates = _tables(graph, data, Rates.of(pool.device))
        rates = replace(rates, layers=_layers(graph, data), source="measured")
        rates = _with_calls(rates) if sockets else _by_reference(rates, pool)
        rates = replace(rates, compute_fraction=_fraction(graph, data[batch_sizes[-1]], batch_sizes[-1]))
        if dataset is not None:
            rates = replace(rates, read=_read(dataset, batch_sizes))
    notes = () if dataset is not None else ("reading was not measured: no data was given",)
    return Profile({pool.name: rates}, batch_sizes, _unique(graph, data, sample), notes)


def synthetic_batch(graph: Graph, n: int, seed: int = 0) -> dict[str, Any]:
    """Columns as a graph declares them: normal numbers, 0/1 labels, ids by a Zipf law."""
    rng = np.random.default_rng(seed)
    return {op.name: _column(op.type, n, rng) for op in graph.inputs}


def _column(type_: Any, n: int, rng: np.random.Generator) -> Any:
    if type_.form is Form.RAGGED:
        lengths = rng.poisson(type_.mean_length, n)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Ragged(_ids(int(offsets[-1]), rng), offsets)
    shape = (n, *type_.shape)
    if type_.dtype == "uint64":
        slots = np.arange(math.prod(type_.shape), dtype=np.uint64).reshape(type_.shape) * np.uint64(_VOCABULARY)
        return _ids(math.prod(shape), rng).reshape(shape) + slots
    if type_.dtype == "float32":
        return rng.standard_normal(shape, dtype=np.float32) if type_.shape else rng.integers(0, 2, n).astype(np.float32)
    return rng.integers(0, 2, shape).astype(type_.dtype)


def _ids(n: int, rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    return (rng.zipf(_ZIPF, n) % _VOCABULARY).astype(np.uint64)


def _batches(dataset: Dataset, batch_size: int) -> Iterator[Columns]:
    for split in dataset.splits():
        for batch in dataset.read(split, batch_size=batch_size):
            yield batch.columns


def _best_s(call: Callable[[], object], seconds: float = _SECONDS) -> float:
    """Least processor time of this thread over the calls that fit into a short time, after one that warms up."""
    call()
    best, until = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < until or math.isinf(best):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


def _read(dataset: Dataset, batch_sizes: tuple[int, ...], seconds: float = 1.0) -> Line:
    """Seconds per row of a reader, over as many batches as fit into a short time."""
    batches = _batches(dataset, batch_sizes[-1])
    next(batches)
    rows, start = 0, time.process_time()  # of all threads: a reader may have its own
    for columns in batches:
        rows += len(next(iter(columns.values())))
        if time.process_time() - start > seconds:
            break
    return Line(0.0, (time.process_time() - start) / max(rows, 1)) if rows else Line()


def _flat_ids(columns: Columns, group: Group) -> npt.NDArray[np.uint64]:
    values = [columns[name].values if isinstance(columns[name], Ragged) else columns[name] for name in group.ids]
    return np.concatenate([np.asarray(v, np.uint64).reshape(-1) for v in values])


def _unique(graph: Graph, data: Mapping[int, Columns], sample: Sample | None) -> float | None:
    if sample is not None:
        return sample.unique_fraction
    ids = [_flat_ids(data[max(data)], group) for group in Model(graph).lowered.groups]
    return sum(len(np.unique(i)) for i in ids) / sum(map(len, ids)) if ids else None


def _tables(graph: Graph, data: Mapping[int, Columns], rates: Rates) -> Rates:
    """Time de-duplication, pull, push and the dense rule, for small and large batches."""
    model = Model(graph, sparse=ElementAdaGrad())
    if not model.groups:
        return replace(rates, dense=_dense(model))
    times = [_table_times(model, columns) for columns in data.values()]
    dedupe, pull, push = (fit_line(dict(points)) for points in zip(*times, strict=True))
    return replace(rates, dedupe=dedupe, pull=pull, push=push, dense=_dense(model))


def _table_times(model: Model, columns: Columns) -> tuple[tuple[float, float], ...]:
    """(ids, seconds) to de-duplicate one batch, (unique rows, seconds) to pull and to push it."""
    ids = [_flat_ids(columns, group) for group in model.lowered.groups]
    routers, shard, number = [Router() for _ in ids], Shard(model.groups, seed=0), itertools.count()
    pairs = list(zip(routers, ids, strict=True))
    grads = {
        group.name: RowGradients((r := router.route(i)).ids, np.full((len(r), group.width), 1e-3, np.float32))
        for group, (router, i) in zip(model.lowered.groups, pairs, strict=True)
    }
    unique = {name: each.ids.copy() for name, each in grads.items()}  # routers use their buffers again
    grads = {name: RowGradients(unique[name], each.values) for name, each in grads.items()}
    rows = float(sum(map(len, unique.values())))
    return (
        (float(sum(map(len, ids))), _best_s(lambda: [router.route(i) for router, i in pairs])),
        (rows, _best_s(lambda: [shard.pull(name, of) for name, of in unique.items()])),
        (rows, _best_s(lambda: shard.push(BatchKey(0, 0, next(number)), grads))),
    )


def _dense(model: Model) -> Line:
    shard, number = Shard((), model.parameters, seed=0), itertools.count()
    gradient = np.full(model.layout.size, 1e-3, np.float32)
    if not len(gradient):
        return Line()
    out = np.empty_like(gradient)

    def step() -> None:
        shard.pull_dense(out)
        shard.push(BatchKey(0, 0, next(number)), None, gradient)

    return Line(0.0, _best_s(step) / len(gradient))


def _layers(graph: Graph, data: Mapping[int, Columns]) -> dict[str, Line]:
    """Time forward and backward of every Layer that computes."""
    low = Model(graph).lowered.graph
    lines = {}
    for layer in layers_of(graph).layers:
        if not any(low.kind(low[name]).access for name in layer.ops):
            lines[layer.name] = fit_line({float(n): _best_s(_step(graph, layer, c, n)) for n, c in data.items()})
    return lines


def _step(graph: Graph, layer: Layer, columns: Columns, n: int) -> Callable[[], object]:
    """One batch of a Layer, forward and backward, on values like those of training."""
    model = Model(graph)
    program = Program(model.lowered.graph, layer.ops, batch_size=n)
    rng = np.random.default_rng(0)
    feeds = {name: _feed(model, name, columns, n, rng) for name in program.feeds}
    params = rng.standard_normal(program.layout.size, dtype=np.float32) * np.float32(0.05)
    given = {name: _value(model, name, n, rng) for name in program.given}

    def step() -> None:
        program.forward(feeds, params)
        program.backward(given)

    return step


def _feed(model: Model, name: str, columns: Columns, n: int, rng: np.random.Generator) -> Any:
    if name in columns:
        return columns[name]
    for group in model.lowered.groups:
        if name == pull_name(group):
            return _rows(group, columns)
    return _value(model, name, n, rng)


def _value(model: Model, name: str, n: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    return rng.standard_normal((n, *model.lowered.graph[name].type.shape), dtype=np.float32) * np.float32(0.1)


def _rows(group: Group, columns: Columns) -> Rows:
    """Unique rows of a batch, and where they go."""
    router = Router()
    routed = router.route(_flat_ids(columns, group))
    inverse, offsets, at = [], [], 0
    for name in group.ids:
        column = columns[name]
        ragged = isinstance(column, Ragged)
        size = len(column.values) if ragged else column.size
        part = routed.inverse[at : at + size].copy()
        inverse.append(part if ragged else part.reshape(column.shape))
        offsets.append(column.offsets if ragged else None)
        at += size
    values = np.full((len(routed), group.width), 0.01, np.float32)
    return Rows(values, tuple(inverse), tuple(offsets), routed.ids.copy())


def _fraction(graph: Graph, columns: Columns, n: int) -> float:
    """The parallel part of the compute Layers: all cores at once against one alone."""
    cores = available_cores()
    low = Model(graph).lowered.graph
    heavy = [layer for layer in layers_of(graph).layers if not any(low.kind(low[o]).access for o in layer.ops)]
    if cores < 2 or not heavy:
        return 1.0

    def all_layers() -> Callable[[], object]:
        steps = [_step(graph, layer, columns, n) for layer in heavy]
        return lambda: [step() for step in steps]

    works = [all_layers() for _ in range(cores)]
    alone = _best_s(works[0], 0.5)
    with ThreadPoolExecutor(cores) as executor:
        together = max(executor.map(lambda work: _best_s(work, 1.0), works))
    return fit_fraction(alone, together / cores, cores)


class _Echo:
    """A service that takes arrays and answers with little, as a push does."""

    @property
    def methods(self) -> dict[str, Method]:
        return {"take": lambda message: Message({}, message.arrays[:1])}


def _with_calls(rates: Rates) -> Rates:
    """Processor time of a call and of a byte, on either side, and what passes, over a socket of this machine."""
    listener = Listener(_Echo())
    peer = SocketPeer(listener.address)
    small, large = np.zeros(1, np.uint8), np.zeros(_CALLED_BYTES, np.uint8)
    try:
        call_cpu, call_wall = _cpu_s(lambda: peer.call("take", [small]))
        large_cpu, large_wall = _cpu_s(lambda: peer.call("take", [small, large]))
    finally:
        peer.close()
        listener.close()
    return replace(
        rates,
        call_s=call_cpu / 2,
        wire_s_per_byte=max(0.0, large_cpu - call_cpu) / 2 / _CALLED_BYTES,
        network_bytes_per_s=_CALLED_BYTES / max(large_wall - call_wall, 1e-6),
    )


def _by_reference(rates: Rates, pool: Pool) -> Rates:
    """Calls within one process: the method itself, no byte moved."""
    peer, small = DirectPeer(_Echo()), np.zeros(1, np.uint8)
    call_s = _best_s(lambda: peer.call("take", [small]))
    return replace(rates, call_s=call_s, wire_s_per_byte=0.0, network_bytes_per_s=pool.device.memory_bytes_per_s)


def _cpu_s(call: Callable[[], object], seconds: float = 0.3) -> tuple[float, float]:
    """Processor and wall seconds per call of this process, both ends being in it."""
    call()
    calls, cpu, wall = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < seconds:
        call()
        calls += 1
    return (time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls
