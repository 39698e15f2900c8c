"""A small run of a cache on a device, against the same cache in memory: values, own steps, gathered gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Namespace, to_device
from heterps.device.compare import same
from heterps.errors import HardwareError
from heterps.tables.live.cached_rows import CachedRows
from heterps.tables.live.gathered import Gathered
from heterps.tables.on_device.device_cache import DeviceCachedRows, OwnUnit, cache_bytes
from heterps.tables.on_device.device_gathered import DeviceGathered, take_gathered
from heterps.tables.specs.rules import FTRL, SGD, Adam, Rule
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["check_device_cache"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]

#: Ids of a batch at most and of the whole run; rows that stay; batches, of a unit too, and by how many rows may be old.
BATCH, IDS, MOST, BATCHES, UNIT, STALENESS = 7, 15, 6, 24, 3, 5


def _group(*rules: Rule) -> GroupSpec:
    return GroupSpec("kept", tuple(TableSpec(f"t{k}", 3 - k, rule) for k, rule in enumerate(rules)), n_shards=1)


#: With slots, so that rows take steps once they have met often; and without, so that all do at once.
GROUPS = (_group(Adam(lr=0.1), FTRL(lr=0.1)), _group(SGD(lr=0.1)))


class _Batch(NamedTuple):
    """One batch: its ids, what hosts have of all ids by now, its gradients, one of them not finite now and then."""

    n: int
    ids: U64
    values: F32
    slots: F32
    gradients: F32

    @property
    def unit(self) -> int:
        return self.n - self.n % UNIT


def _batches(spec: GroupSpec, slots: int) -> Iterator[_Batch]:
    rng = np.random.default_rng(6)
    for n in range(BATCHES):
        often = rng.choice(IDS // 3, rng.integers(1, BATCH - 2), replace=False)
        seldom = IDS // 3 + rng.choice(IDS - IDS // 3, 2, replace=False)
        ids = rng.permutation(np.concatenate([often, seldom])).astype(np.uint64)
        values = rng.standard_normal((IDS, spec.width)).astype(np.float32)
        values[n % IDS] = -0.0
        gradients = rng.standard_normal((len(ids), spec.width)).astype(np.float32)
        gradients[0] = -0.0
        if n % 5 == 4:
            gradients[-1, 0] = np.nan
        yield _Batch(n, ids, values, (0.1 + 0.8 * rng.random((IDS, slots))).astype(np.float32), gradients)


def check_device_cache(xp: Namespace, *, exact: bool = True) -> None:
    """Values of each batch and sums of each unit: those of a cache in memory."""
    for spec in GROUPS:
        _check(spec, xp, 0 if exact else 64)


def _check(spec: GroupSpec, xp: Namespace, ulps: int) -> None:
    here, there = CachedRows(spec, MOST), DeviceCachedRows(spec, MOST, xp)
    sums_here, sums_there = Gathered(spec), DeviceGathered(spec, xp)
    stepped = 0
    for batch in _batches(spec, here.slot_bytes // 4):
        rows = _ask(here, batch)
        if not np.array_equal(rows, _ask(there, batch)):
            raise HardwareError("a cache on the device: rows have other numbers than in memory")
        values: F32 = np.empty((len(rows), spec.width), np.float32)
        here.read(rows, values)
        lent = there.lend(batch.ids, rows, sums_there, (None, None), OwnUnit(batch.unit, 0))
        found = lent.arrive([to_device(array, xp) for array in lent.arrays])
        same(f"a cache on the device, rows of batch {batch.n}", found, values, ulps=ulps)
        stepped += bool(np.not_equal(values, batch.values[batch.ids.astype(np.int64)]).any())
        sums_here.add(batch.ids, batch.gradients, None, None)
        here.learn(batch.ids, rows, batch.gradients, batch.unit, 0)
        lent.learn(to_device(batch.gradients, xp))
        if batch.n % UNIT == UNIT - 1:
            _compare_sums(batch.n, sums_here, sums_there, ulps)
        for cached in (here, there):
            cached.let_go(batch.n + 1)
    _check_run(spec, there, stepped)


def _ask(cached: CachedRows | DeviceCachedRows, batch: _Batch) -> npt.NDArray[np.uint32]:
    """Let a batch have its rows, some of them with their slots; they come twice, every second one no newer then."""
    settled = max(0, batch.unit - UNIT)
    rows, lacking = cached.need(batch.ids, batch.n, batch.n - STALENESS, settled)
    at = np.flatnonzero(lacking)
    staying = cached.wants_slots(rows[at])
    at, n = np.concatenate([at[staying], at[~staying]]), int(staying.sum())
    ids = batch.ids[at].astype(np.int64)
    if len(at):
        slots = batch.slots[ids[:n]] if n else None
        cached.take(rows[at], batch.values[ids] + 1, settled - 1, 0, slots)
        cached.take(rows[at[1::2]], batch.values[ids[1::2]] + 2, settled, 0)
        cached.take(rows[at], batch.values[ids], settled, 0, slots)
    return rows


def _compare_sums(n: int, here: Gathered, there: DeviceGathered, ulps: int) -> None:
    beside = DeviceGathered(GROUPS[0], there.xp)
    beside.add(to_device(beside.place(np.ones(1, np.uint64), None, None)[0], there.xp), None, there.xp.ones((1, 5)))
    expected, found = here.take(), take_gathered({"beside": beside, "kept": there})["kept"]
    same(f"a cache on the device, ids settled after batch {n}", found.ids, expected.ids)
    same(f"a cache on the device, gradients settled after batch {n}", found.values, expected.values, ulps=ulps)


def _check_run(spec: GroupSpec, there: DeviceCachedRows, stepped: int) -> None:
    """The run has shown what it is to show: own steps, rows that went, more rows than are kept."""
    if len(there) != MOST or stepped < BATCHES // 4:
        raise HardwareError(f"a cache on the device: {len(there)} rows were kept of {MOST}, {stepped} batches stepped")
    if there.device_bytes < cache_bytes(spec, MOST):
        raise HardwareError(f"a cache on the device: {there.device_bytes} bytes where {MOST} rows take more")
