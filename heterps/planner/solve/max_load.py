"""The least load of the fullest device: pieces of an instance on accelerators and CPUs, each a run between two cuts.

An accelerator's load is the time of its pieces and of every tensor that it takes from, or gives to, another device,
each once; a CPU's is the time of its pieces. Dynamic programming over the legal cuts (downsets): the least load with
which a cut is reached with so many accelerators and CPUs.

Loads below a limit are looked for, from what no placement undercuts upwards until there is one: with a limit, a pair of
cuts whose work alone takes longer need not be looked at, nor a cut behind which more is left than the devices that are
left can do. So a limit near the least load leaves few pairs, and one below which there is nothing is a bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError
from heterps.planner.costs.instance import Instance
from heterps.planner.solve.branching import Branching
from heterps.planner.solve.cut_loads import open_costs, spread, sums_of, transfers
from heterps.planner.solve.dag import downsets
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from heterps.planner.solve.joined_pieces import joined
from heterps.planner.solve.orders import along
from heterps.planner.solve.row_prices import LinearRows

__all__ = ["LoadPlan", "LoadedDevice", "least_load"]

MOST_CUTS = 200_000
MOST_CELLS = 200_000_000  # bytes, nearly, of each table with a row for each cut
TOGETHER = 256  # cuts that are gone on from before the clock is looked at
STEP = 0.005  # how far above a bound a placement is looked for first; twice as far each time
Bools = npt.NDArray[np.bool_]
Found = tuple[tuple["LoadedDevice", ...], float]


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


def least_load(instance: Instance, most_cuts: int = MOST_CUTS, deadline: Deadline = NEVER) -> LoadPlan:
    """Place an instance; when the time is over, with what was found and what was proved by then.

    Raises
    ------
    PlanError
        If nothing fits the devices, or nothing was found.
    """
    begin, instance = time.perf_counter(), _with_useful_devices(joined(instance))
    few = _Cuts(instance, along(range(len(instance.ids))))
    found, bound = few.least(few.most, NEVER), _least(instance)
    members = downsets(len(instance.ids), instance.edges, min(most_cuts, MOST_CELLS // _cells(instance)))
    if members is not None:
        found, bound = _deepened(_Cuts(instance, members), found, bound, deadline)
    if found is None:
        raise PlanError(_nothing(instance, few, bound))
    devices, load = found
    cuts, seconds = len(few.members if members is None else members), time.perf_counter() - begin
    return LoadPlan(devices, load, min(load, bound), cuts, members is not None and bound >= load, seconds)


def _with_useful_devices(instance: Instance) -> Instance:
    """The instance with no more devices of a kind than pieces.

    Raises
    ------
    PlanError
        If they are still more than can be told apart.
    """
    pieces = len(instance.ids)
    fewer = replace(instance, accelerators=min(instance.accelerators, pieces), cpus=min(instance.cpus, pieces))
    if (pieces + 1) * _cells(fewer) > MOST_CELLS:
        raise PlanError(
            f"{fewer.accelerators:,} accelerators and {fewer.cpus:,} CPUs are too many for {pieces:,} pieces"
        )
    return fewer


def _cells(instance: Instance) -> int:
    """Bytes of a row of the largest table: of pieces, or of numbers of devices in use."""
    return max(len(instance.ids), 8 * (instance.accelerators + 1) * (instance.cpus + 1))


def _deepened(cuts: _Cuts, found: Found | None, bound: float, deadline: Deadline) -> tuple[Found | None, float]:
    """The best placement over all cuts and what none undercuts, infinity if there is none; as far as time allows."""
    above, step = cuts.most if found is None else found[1] * (1 + 1e-12) + 1e-300, STEP
    try:
        while bound < above:
            limit = min(above, bound * (1 + step)) if bound > 0 else above
            best = cuts.least(limit, deadline)
            if best is not None:
                return best, best[1]
            bound, step = limit, 2 * step
    except UndecidedError:
        return found, bound
    return found, np.inf if found is None else found[1]


class _Cuts:
    """Cuts of an instance in order of the time that all before each takes on an accelerator, with all their sums."""

    def __init__(self, instance: Instance, members: Bools) -> None:
        self._instance = instance
        figures = (instance.accelerator_s, instance.cpu_s, instance.bytes, ~instance.supported)
        sums = sums_of(members, np.array(figures, float))
        order = np.lexsort((members.sum(axis=1), sums[:, 0]))
        self.members, self._sums = np.ascontiguousarray(members[order]), np.ascontiguousarray(sums[order])
        self._later = np.minimum.accumulate(self._sums[::-1, 1])[::-1]
        self._words, self._tensors = _words(self.members), _tensors(instance)
        self._opened = open_costs(self.members, *self._tensors)

    @property
    def most(self) -> float:
        """More than the load of any device in any placement."""
        moved = float(self._tensors[2].sum())
        return float(max(self._sums[-1, 0] + moved, self._sums[-1, 1])) * (1 + 1e-9) + 1e-300

    def least(self, most: float, deadline: Deadline) -> Found | None:
        """The best placement with a load below ``most``; None if there is none.

        Raises
        ------
        UndecidedError
            If the time is over before that is known.
        """
        shape = (len(self.members), self._instance.accelerators + 1, self._instance.cpus + 1)
        best, came = np.full(shape, np.inf), np.zeros((*shape, 2), np.int32)
        best[0, 0, 0] = 0.0
        known = (self.members, self._words, self._sums, self._later, self._opened, self._tensors)
        room, start = self._instance.memory_bytes * (1 + 1e-9), self._start(most)
        for first in range(0, len(best) - 1, TOGETHER):
            if deadline.over:
                raise UndecidedError("the time is over")
            spread((first, min(first + TOGETHER, len(best) - 1)), *known, room, start, most, best, came)
        return self._placement(best, came) if best[-1].min() < most else None

    def _start(self, most: float) -> npt.NDArray[np.int64]:
        """int[accelerators, cpus in use]: the first cut behind which no more is left than other devices can do."""
        own, sums = self._instance, self._sums[:, 0]
        slow = own.cpu_s > 0
        gain = float((own.accelerator_s[slow] / own.cpu_s[slow]).max(initial=0.0))
        free = float(own.accelerator_s[~slow].sum())
        accelerators = most * np.arange(own.accelerators, -1, -1)[:, None]
        cpus = np.arange(own.cpus, -1, -1)[None, :]
        done = accelerators + most * gain * cpus + free * (cpus > 0)
        return np.asarray(np.searchsorted(sums, sums[-1] * (1 - 1e-9) - done * (1 + 1e-9)), np.int64)

    def _placement(self, best: npt.NDArray[np.float64], came: npt.NDArray[np.int32]) -> Found:
        """Follow the way back from the last cut."""
        a, c = (int(v) for v in np.unravel_index(int(best[-1].argmin()), best[-1].shape))
        load, at, devices = float(best[-1, a, c]), len(self.members) - 1, []
        while at > 0:
            before, kind = (int(v) for v in came[at, a, c])
            devices.append(self._device(before, at, kind))
            at, a, c = before, a - kind, c - (1 - kind)
        return tuple(reversed(devices)), load

    def _device(self, before: int, at: int, kind: int) -> LoadedDevice:
        """The device, an accelerator or a CPU, with the pieces between two cuts."""
        mine = np.flatnonzero(self.members[at] & ~self.members[before])
        seconds = self._instance.accelerator_s if kind else self._instance.cpu_s
        moved = transfers(before, at, self.members, self._opened, self._tensors) if kind else 0.0
        ids = tuple(i for v in mine for i in self._instance.ids[v])
        return LoadedDevice("accelerator" if kind else "cpu", ids, float(seconds[mine].sum()) + moved)


def _words(members: Bools) -> npt.NDArray[np.uint64]:
    padded = np.zeros((len(members), -(-members.shape[1] // 64) * 64), np.uint8)
    padded[:, : members.shape[1]] = members
    return np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little")).view(np.uint64)


def _tensors(instance: Instance) -> tuple[npt.NDArray[Any], ...]:
    """First piece, pieces and cost of each tensor, as arrays; those of the same pieces are one."""
    costs: dict[tuple[int, ...], float] = {}
    for tensor in instance.tensors:
        pieces = tuple(sorted({tensor.source, *tensor.readers}))
        costs[pieces] = costs.get(pieces, 0.0) + tensor.cost
    moved = {pieces: cost for pieces, cost in costs.items() if cost > 0 and len(pieces) > 1}
    first = np.cumsum([0, *(len(pieces) for pieces in moved)])
    return first, np.array([v for pieces in moved for v in pieces], np.int64), np.array(list(moved.values()), float)


def _nothing(instance: Instance, few: _Cuts, bound: float) -> str:
    """Why there is no placement, or none was found, and what would help."""
    claim = "no placement fits" if bound == np.inf else f"no placement was found over {len(few.members)} cuts"
    has = f"{instance.accelerators} accelerators of size {instance.memory_bytes:,.6g}, {instance.cpus} CPUs"
    needs = f"ops of {instance.bytes.sum():,.6g} in all"
    return f"{claim}: {needs}, {has}{_homeless(instance)}; raise maxFPGAs, maxSizePerFPGA or maxCPUs"


def _homeless(instance: Instance) -> str:
    """The ops that need a CPU where there is none."""
    fits = instance.supported & (instance.bytes <= instance.memory_bytes) & (instance.accelerators > 0)
    ops = [] if instance.cpus else [i for v in np.flatnonzero(~fits) for i in instance.ids[v]]
    named = ", ".join(map(str, ops[:5])) + (", ..." if ops[5:] else "")
    return f", and no accelerator takes op {named}" if ops else ""


def _least(instance: Instance) -> float:
    """A load that no placement undercuts: pieces divided at will, transfers free; and the largest piece whole.

    Pieces that are larger than an accelerator's memory are on a CPU, and all together are no larger than all memory.
    """
    from scipy.sparse import csr_matrix

    n = len(instance.ids)
    share = np.concatenate([instance.accelerator_s, [-float(instance.accelerators)]])
    rest = np.concatenate([-instance.cpu_s, [-float(instance.cpus)]])
    room = instance.memory_bytes * (1 + 1e-9)
    memory = max(instance.accelerators * room, 1e-300)
    sizes = np.concatenate([np.minimum(instance.bytes / memory, 2.0), [0.0]])
    allowed = instance.supported & (instance.bytes <= room)
    top = [1.0 if ok and instance.accelerators else 0.0 for ok in allowed]
    low = [0.0 if instance.cpus else one for one in top]
    limits = np.array([*low, 0.0]), np.array([*top, float(instance.accelerator_s.sum() + instance.cpu_s.sum())])
    cost, most = np.concatenate([np.zeros(n), [1.0]]), np.array([0.0, -instance.cpu_s.sum(), 1.0])
    rows = LinearRows(csr_matrix(np.array([share, rest, sizes])), np.full(3, -np.inf), most)
    bound = Branching(cost, rows, np.zeros(n + 1, np.bool_)).least(limits, NEVER).bound
    alone = np.where(allowed, np.minimum(instance.accelerator_s, instance.cpu_s), instance.cpu_s).max()
    return max(bound if np.isfinite(bound) else 0.0, float(alone) if instance.cpus else 0.0)
