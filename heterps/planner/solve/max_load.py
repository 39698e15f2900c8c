"""The least load of the fullest device: pieces of an instance on accelerators and CPUs, each a run between two cuts.

An accelerator's load is the time of its pieces and of every tensor that it takes from, or gives to, another device,
each once; a CPU's is the time of its pieces. Dynamic programming over the legal cuts (downsets): the least load with
which a cut is reached with so many accelerators and CPUs. What is found over the cuts of a few orders comes first: a
pair of cuts whose work alone takes longer need not be looked at, and the rest is exact.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.errors import PlanError
from heterps.planner.costs.instance import Instance
from heterps.planner.solve.dag import downsets
from heterps.planner.solve.joined_pieces import joined
from heterps.planner.solve.orders import along

__all__ = ["LoadPlan", "LoadedDevice", "least_load"]

MOST_CUTS = 60_000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LoadedDevice:
    """One device: its kind, its pieces' ops, its load."""

    kind: str
    ids: tuple[int, ...]
    load: float


@dataclass(frozen=True)
class LoadPlan:
    """Devices in the order of the pipeline; the load of the fullest, what no placement undercuts, the time taken."""

    devices: tuple[LoadedDevice, ...]
    load: float
    bound: float
    cuts: int
    complete: bool
    seconds: float

    @property
    def gap(self) -> float:
        """Relative distance of load and bound; 0 is a proof."""
        return (self.load - self.bound) / self.load if self.load else 0.0


@njit(nogil=True, cache=True)
def _transfers(i, j, member, source, first, readers, cost):  # type: ignore[no-untyped-def]
    """Time of the tensors between the pieces from cut i to cut j and all others."""
    total = 0.0
    for s in range(len(source)):
        made = member[j, source[s]] and not member[i, source[s]]
        inside = False
        outside = False
        for r in range(first[s], first[s + 1]):
            if member[j, readers[r]] and not member[i, readers[r]]:
                inside = True
            else:
                outside = True
        if (made and outside) or (inside and not made):
            total += cost[s]
    return total


@njit(nogil=True, cache=True)
def _spread(member, words, sums, room, tensors, devices, most, best, came):  # type: ignore[no-untyped-def]
    """Write the least load with which each cut is reached, below ``most``; and from where: (cut, kind)."""
    source, first, readers, cost = tensors
    n = len(member)
    best[0, 0, 0] = 0.0
    for i in range(n - 1):
        reached = best[i].min()
        if reached >= most:
            continue
        for j in range(i + 1, n):
            on_cpu, on_accelerator = sums[j, 0] - sums[i, 0], sums[j, 1] - sums[i, 1]
            may = sums[j, 3] == sums[i, 3] and sums[j, 2] - sums[i, 2] <= room and on_accelerator < most
            if not may and on_cpu >= most:
                continue
            contained = True
            for w in range(words.shape[1]):
                if words[i, w] & ~words[j, w]:
                    contained = False
                    break
            if not contained:
                continue
            load = -1.0
            for a in range(devices[0] + 1):
                for c in range(devices[1] + 1):
                    before = best[i, a, c]
                    if before >= most:
                        continue
                    if may and a < devices[0] and max(before, on_accelerator) < min(best[j, a + 1, c], most):
                        if load < 0:
                            load = on_accelerator + _transfers(i, j, member, source, first, readers, cost)
                        if max(before, load) < min(best[j, a + 1, c], most):
                            best[j, a + 1, c] = max(before, load)
                            came[j, a + 1, c, 0], came[j, a + 1, c, 1] = i, 1
                    if c < devices[1] and max(before, on_cpu) < min(best[j, a, c + 1], most):
                        best[j, a, c + 1] = max(before, on_cpu)
                        came[j, a, c + 1, 0], came[j, a, c + 1, 1] = i, 0


def least_load(instance: Instance, most_cuts: int = MOST_CUTS) -> LoadPlan:
    """Place an instance.

    Raises
    ------
    PlanError
        If nothing fits the devices.
    """
    start, instance = time.perf_counter(), joined(instance)
    rough = _over(instance, _few_cuts(instance), np.inf)
    every = downsets(len(instance.ids), instance.edges, most_cuts)
    above = np.inf if rough is None else rough[1] * (1 + 1e-12) + 1e-300
    found = rough if every is None else _over(instance, every, above) or rough
    if found is None:
        known = (
            "no placement fits" if every is not None else f"no placement was found over {len(_few_cuts(instance))} cuts"
        )
        raise PlanError(
            f"{known}: {instance.accelerators} accelerators of {instance.memory_bytes:,.0f} bytes, {instance.cpus} CPUs"
        )
    devices, load = found
    bound = load if every is not None else min(load, _least(instance))
    cuts = len(every) if every is not None else len(_few_cuts(instance))
    return LoadPlan(devices, load, bound, cuts, every is not None, time.perf_counter() - start)


def _few_cuts(instance: Instance) -> npt.NDArray[np.bool_]:
    """Cuts along the pieces' own order."""
    return along(range(len(instance.ids)))


def _over(
    instance: Instance, members: npt.NDArray[np.bool_], most: float
) -> tuple[tuple[LoadedDevice, ...], float] | None:
    """The best placement over given cuts with a load below ``most``; None if there is none."""
    figures = [instance.cpu_s, instance.accelerator_s, instance.bytes, ~instance.supported]
    sums = np.ascontiguousarray(members.astype(float) @ np.array(figures, float).T)
    devices = np.array([instance.accelerators, instance.cpus])
    shape = (len(members), instance.accelerators + 1, instance.cpus + 1)
    best, came = np.full(shape, np.inf), np.zeros((*shape, 2), np.int64)
    room = instance.memory_bytes * (1 + 1e-9)
    _spread(members, _words(members), sums, room, _tensors(instance), devices, most, best, came)
    if not best[-1].min() < most:
        return None
    return _read(instance, members, best, came)


def _words(members: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    padded = np.zeros((len(members), -(-members.shape[1] // 64) * 64), np.uint8)
    padded[:, : members.shape[1]] = members
    return np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little")).view(np.uint64)


def _tensors(instance: Instance) -> tuple[npt.NDArray[Any], ...]:
    """Source, first reader, readers and cost of each tensor, as arrays."""
    source = np.array([t.source for t in instance.tensors], np.int64)
    first = np.cumsum([0, *(len(t.readers) for t in instance.tensors)])
    readers = np.array([r for t in instance.tensors for r in t.readers], np.int64)
    return source, first, readers, np.array([t.cost for t in instance.tensors], float)


def _read(
    instance: Instance, members: npt.NDArray[np.bool_], best: Floats, came: npt.NDArray[np.int64]
) -> tuple[tuple[LoadedDevice, ...], float]:
    """Follow the way back from the last cut."""
    a, c = (int(v) for v in np.unravel_index(int(best[-1].argmin()), best[-1].shape))
    load, at, devices = float(best[-1, a, c]), len(members) - 1, []
    tensors = _tensors(instance)
    while at > 0:
        before, kind = (int(v) for v in came[at, a, c])
        mine = np.flatnonzero(members[at] & ~members[before])
        seconds = instance.accelerator_s if kind else instance.cpu_s
        own = float(seconds[mine].sum()) + (_transfers(before, at, members, *tensors) if kind else 0.0)
        ids = tuple(i for v in mine for i in instance.ids[v])
        devices.append(LoadedDevice("accelerator" if kind else "cpu", ids, own))
        at, a, c = before, a - kind, c - (1 - kind)
    return tuple(reversed(devices)), load


def _least(instance: Instance) -> float:
    """A load that no placement undercuts: pieces divided at will, transfers free; and the largest piece whole."""
    from scipy.optimize import linprog

    n = len(instance.ids)
    share = np.concatenate([instance.accelerator_s, [-float(instance.accelerators)]])
    rest = np.concatenate([-instance.cpu_s, [-float(instance.cpus)]])
    top = [1.0 if ok and instance.accelerators else 0.0 for ok in instance.supported]
    low = [0.0 if instance.cpus else one for one in top]
    bounds = [*zip(low, top, strict=True), (0, None)]
    cost = np.concatenate([np.zeros(n), [1.0]])
    found = linprog(cost, np.array([share, rest]), [0.0, -instance.cpu_s.sum()], bounds=bounds)
    alone = np.where(instance.supported, np.minimum(instance.accelerator_s, instance.cpu_s), instance.cpu_s).max()
    return max(float(found.fun) if found.status == 0 else 0.0, float(alone) if instance.cpus else 0.0)
