"""Short runs on this machine that yield a Profile: kernels of each Layer, table access, reading, calls, the engine.

Times are the processor time of one thread (one BLAS thread): what else runs on the machine hardly disturbs them.
Nothing here runs a plan: whole runs are left to check the forecasts with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from heterps.data import Batch, Dataset
from heterps.device import found_devices
from heterps.graph import Graph
from heterps.hardware import Pool
from heterps.planner.costs.profile import Line, Profile, Rates, fit_fraction, fit_line
from heterps.planner.costs.sample import sample_batches
from heterps.protocol.words.keys import BatchKey
from heterps.runtime.batch.devices import AUTO, CPU, ChosenDevice, DeviceWish, choose_device
from heterps.runtime.batch.feeds import ids_of
from heterps.runtime.batch.model import Model
from heterps.runtime.cluster.core_share import available_cores
from heterps.runtime.measure.calls import with_calls
from heterps.runtime.measure.engine_share import with_engine
from heterps.runtime.measure.parts import Parts, PartsTaken
from heterps.runtime.measure.synthetic import synthetic_batch

__all__ = ["measure_profile"]

_BATCHES = 8  # different ones, so that caches hold what they hold in training
_SAMPLED_ROWS = 50_000


def measure_profile(
    graph: Graph,
    pool: Pool,
    dataset: Dataset | None = None,
    *,
    batch_sizes: tuple[int, int] = (1024, 4096),
    sockets: bool = True,
    device: str = AUTO,
    emulate: bool = False,
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
    device, emulate
        As for :func:`~heterps.launching.launch`; what the Layers were measured on is in the profile.

    Raises
    ------
    HardwareError
        If the pool is to have GPUs, none can be used here, and nothing may stand in.
    """
    model = Model(graph)
    wish = DeviceWish(device, emulate).on([(pool.name, pool.kind == "gpu")])
    chosen = choose_device(wish.wanted, found_devices(), wish.pool(0))
    with threadpool_limits(1):
        taken = [Parts(model, list(_some(graph, dataset, n)), n, chosen).measure() for n in batch_sizes]
        rates = _fitted(taken, Rates.of(pool.device))
        crowded = 1.0
        if chosen.xp is np:  # a device has a process of its own
            crowded = _fraction(model, list(_some(graph, dataset, batch_sizes[-1])), taken[-1])
        rates = replace(rates, compute_fraction=crowded, source=_source(chosen))
        rates = with_engine(with_calls(rates, pool, sockets), sockets)
        if dataset is not None:
            rates = replace(rates, read=_read(dataset, batch_sizes[-1]))
    notes: tuple[str, ...] = () if dataset is not None else ("reading was not measured: no data was given",)
    if chosen != CPU:
        notes += (f"pool {pool.name!r}: layers were measured on {chosen}",)
    return Profile({pool.name: rates}, batch_sizes, _unique(graph, dataset, batch_sizes[-1]), notes)


def _source(device: ChosenDevice) -> str:
    """Name what was measured, where that is not plainly the CPU."""
    return "measured" if device == CPU else f"measured on {device}"


def _some(graph: Graph, dataset: Dataset | None, n: int) -> Iterator[Batch]:
    """Whole batches of the data, over and over if there are few, or made up; all of them stay valid."""
    if dataset is None:
        for i in range(_BATCHES):
            yield Batch(BatchKey(0, 0, i), n, synthetic_batch(graph, n, seed=i))
        return
    seen = 0
    for batch in _batches(dataset, n):
        if seen and batch.size < n:
            continue
        yield batch
        seen += 1
        if seen == _BATCHES:
            return


def _batches(dataset: Dataset, batch_size: int) -> Iterator[Batch]:
    for split in dataset.splits():
        yield from dataset.read(split, batch_size=batch_size, ring=_BATCHES + 1)


def _fitted(taken: Sequence[PartsTaken], rates: Rates) -> Rates:
    """Lines through what was taken at a small and at a large batch size."""
    dedupe, pull, push, dense = (_line(taken, name) for name in ("dedupe", "pull", "push", "dense"))
    layers = {name: fit_line({each.rows: each.layers[name] for each in taken}) for name in taken[0].layers}
    rates = replace(rates, create_s=taken[-1].create_s, merge_s=taken[-1].merge_s)
    return replace(rates, dedupe=dedupe, pull=pull, push=push, dense=dense, layers=layers)


def _line(taken: Sequence[PartsTaken], name: str) -> Line:
    points = {each.items[name]: each.seconds[name] for each in taken if each.items[name]}
    return fit_line(points) if points else Line()


def _fraction(model: Model, batches: Sequence[Batch], alone: PartsTaken) -> float:
    """The parallel part of a core's work: all cores at once against one alone."""
    cores = available_cores()
    if cores < 2:
        return 1.0
    rigs = [Parts(model, batches, int(alone.rows)) for _ in range(cores)]
    with ThreadPoolExecutor(cores) as executor:
        together = list(executor.map(lambda rig: rig.measure().total_s, rigs))
    return fit_fraction(alone.total_s, sum(together) / cores / cores, cores)


def _read(dataset: Dataset, batch_size: int, seconds: float = 1.0) -> Line:
    """Seconds per row of a reader, over as many batches as fit into a short time."""
    batches = _batches(dataset, batch_size)
    next(batches)
    rows, start = 0, time.process_time()  # of all threads: a reader may have its own
    for batch in batches:
        rows += batch.size
        if time.process_time() - start > seconds:
            break
    return Line(0.0, (time.process_time() - start) / rows) if rows else Line()


def _unique(graph: Graph, dataset: Dataset | None, n: int) -> float | None:
    """Distinct ids per id of a batch."""
    if dataset is not None:
        return sample_batches(graph, (b.columns for b in _batches(dataset, n)), most_rows=_SAMPLED_ROWS).unique_fraction
    batch = next(_some(graph, None, n))
    ids = [np.concatenate(ids_of(batch, group)) for group in Model(graph).lowered.groups]
    return sum(len(np.unique(i)) for i in ids) / sum(map(len, ids)) if ids else None
