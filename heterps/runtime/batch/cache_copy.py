"""An embedding cache: rows that a worker meets often stay with it, gradients are gathered and settled together.

1. A batch asks for rows that are not here or too old (:mod:`heterps.protocol.client.freshness`), a few batches before
   its turn. What an earlier batch has asked for is not asked for again: it is there before the later one is computed.
   So what a batch asks a host for is decided once, and sent again as it was.
2. Gradients of a unit of batches are added up row by row, whether or not the row is still kept, and pushed under the
   unit's key. Hosts apply the rule to the sum: any rule will do.
3. Dense parameters are kept as new as they can be had; each batch's gradient is a step of its own for the host.
4. A worker sees its own gradients at once: until a host has taken them it takes their steps itself, on dense
   parameters and on rows that stay, each on top of what that host had (a grant says up to which batch).
5. Nothing that is here is owed by anybody else: whoever leaves a unit unfinished leaves nothing (``copy_user``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from heterps.protocol.client.freshness import Freshness
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import Cached
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.cache_use import CacheUse
from heterps.runtime.batch.copy_user import CopyUser
from heterps.runtime.batch.devices import ChosenDevice
from heterps.runtime.batch.exchange import Exchange, ExchangeCounter
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.batch.settlement import Learned, Settlement
from heterps.runtime.batch.working_copy import ShownIds
from heterps.tables import CachedRows, Gathered, GroupSpec, OwnDense
from heterps.tables.on_device.device_cache import DeviceCachedRows, OwnUnit, RowsThere
from heterps.tables.on_device.device_gathered import DeviceGathered, take_gathered

__all__ = ["CacheCopy"]

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]
_ID, _HINT = 8, 4  # bytes beside the values of a row or gradient: its id; without a cache also where the row stands
_NEVER = -(1 << 62)


@dataclass(eq=False)
class _Asked:
    """What a batch needs from one host, and what of it was asked for."""

    wanted: Wanted | None
    needs: dict[str, U32]  # by group: where all its rows stand, or will
    asked: dict[str, U32]  # by group: of these, those that were asked for, first those whose slots were
    moment: int


@dataclass(eq=False)
class _Unit:
    """What the batches of a unit have come to so far."""

    rows: dict[str, Gathered | DeviceGathered]
    dense: list[F32] = field(default_factory=list)  # a gradient a batch
    learned: Learned = field(default_factory=Learned)
    versions: dict[int, int] = field(default_factory=dict)  # by host: of the oldest row


class CacheCopy(CopyUser):
    """The rows of one bench.

    Parameters
    ----------
    job
        What is trained, and how many rows of each group are kept.
    phases, exchange
        Take times and counts.
    device
        What the bench computes on: rows are kept there where the job says so (:meth:`Job.caches_on`).
    """

    learns = True

    def __init__(self, job: Job, phases: Phases, exchange: ExchangeCounter, device: ChosenDevice) -> None:
        super().__init__()
        assert isinstance(job.mode, Cached)
        self._job, self._mode, self._phases, self._exchange = job, job.mode, phases, exchange
        self._device, self._there = device, job.caches_on(device)
        self._owners = np.asarray(job.owners, np.int64)
        self._shown = ShownIds(job)
        self._parts = job.parts
        self._spare: list[dict[str, Gathered | DeviceGathered]] = []  # of units that were settled
        self._clear()

    def _clear(self) -> None:
        """Forget everything: rows are asked for when they are needed."""
        job = self._job
        self._rows = {spec.name: self._make_rows(spec) for spec in job.model.groups}
        self._fresh = Freshness(self._mode.staleness, self._mode.unit)
        self._asked: dict[int, dict[int, _Asked]] = {}  # by batch and host, until the batch is computed
        self._dense = np.zeros(job.model.layout.size, np.float32)
        self._own_dense = self._make_own_dense()
        for rows in self._rows.values():
            rows.set_rate(job.rate)
        for dense in self._own_dense:
            dense.set_rate(job.rate)
        self._version = 0  # the newest of a host's: schedules go by it
        self._dense_asked = [_NEVER if part.size else 1 << 62 for part in self._parts]  # by host: as of which moment
        self._dense_heard = [_NEVER for _ in self._parts]  # by host: as of which they are
        self._units: dict[BatchKey, _Unit] = {}  # that are being gathered
        self._owed: dict[BatchKey, tuple[Settlement, dict[int, int]]] = {}  # on its way, with versions by host

    def _make_rows(self, spec: GroupSpec) -> CachedRows | DeviceCachedRows:
        most = self._job.cached_rows(spec)
        if spec.name not in self._there:
            return CachedRows(spec, most)
        with self._device.current():
            return DeviceCachedRows(spec, most, self._device.xp)

    def _make_sums(self) -> dict[str, Gathered | DeviceGathered]:
        with self._device.current():
            return {
                spec.name: DeviceGathered(spec, self._device.xp) if spec.name in self._there else Gathered(spec)
                for spec in self._job.model.groups
            }

    def enter(self, attempt: int, trainer: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it."""
        super().enter(attempt, trainer, terms)
        self._fresh.enter()

    def _make_own_dense(self) -> list[OwnDense]:
        """Return by host what own steps are taken on; nothing where others compute with the parameters."""
        job, model = self._job, self._job.model
        ends = job.dense_ranges if job.fused else ()
        return [OwnDense(model.parameters[a:b], model.seed, self._dense[model.span(a, b)]) for a, b in ends]

    @cached_property
    def _names(self) -> dict[str, str]:
        """How users know the groups that have a cache: by their tables."""
        groups = self._job.model.groups
        return {g.name: ", ".join(table.name for table in g.tables) for g in groups if self._job.cached_rows(g)}

    # --- a batch

    def wanted(self, work: BatchWork, host: int) -> Wanted | None:
        """Return the rows of a batch that are not here, or too old; the same whenever it is asked."""
        asked = self._asked.setdefault(work.key.n, {})
        if host not in asked:
            with self._phases("pull"):
                asked[host] = self._ask(work, host)
        return asked[host].wanted

    def _ask(self, work: BatchWork, host: int) -> _Asked:
        n = work.key.n
        self._fresh.begin(n)
        count, needed, now = self._fresh.count(n), self._fresh.needed(n), self._fresh.contained
        ids, needs, asked, used, slots = {}, {}, {}, {}, {}
        for name, routed in work.routed.items():
            mine, cached = routed.of(host), self._rows[name]
            needs[name], lacking = cached.need(mine, count, needed, now)
            where = np.flatnonzero(lacking)
            staying = cached.wants_slots(needs[name][where])
            if staying.any():
                where, slots[name] = np.concatenate([where[staying], where[~staying]]), int(staying.sum())
            ids[name], asked[name] = mine[where], needs[name][where]
            if name in self._names:
                taken = len(ids[name]) * (4 * cached.width + _ID) + slots.get(name, 0) * cached.slot_bytes
                saved = len(mine) * (4 * cached.width + _ID + _HINT) - taken
                used[self._names[name]] = CacheUse(len(mine), len(ids[name]), saved)
        self._exchange.add(caches=used)
        dense = self._room(host, now)
        nothing = dense is None and not any(map(len, ids.values()))
        own = dense is not None and bool(self._own_dense)
        wanted = None if nothing else Wanted(ids, dense=dense, slots=slots, dense_slots=own, hints=False)
        return _Asked(wanted, needs, asked, now)

    def _room(self, host: int, now: int) -> F32 | None:
        """Return room for dense parameters, if newer ones can be had than were asked for last."""
        if self._dense_asked[host] >= now:
            return None
        self._dense_asked[host] = now
        return np.empty(self._parts[host].size, np.float32)

    def take(self, work: BatchWork, host: int, wanted: Wanted | None, pulled: Pulled) -> None:
        """Take what was asked for."""
        asked = self._asked[work.key.n][host]
        contained = max(asked.moment, self._fresh.count(pulled.low))
        self._version = max(self._version, pulled.version)
        with self._phases("pull"):
            for name, rows in asked.asked.items():
                if len(rows):
                    slots = pulled.slots.get(name)
                    self._rows[name].take(rows, pulled.values[name], contained, pulled.version, slots)
            if pulled.dense is not None and contained > self._dense_heard[host]:
                self._hear_dense(host, pulled.dense, pulled.dense_slots, contained)
                self._dense_heard[host] = contained

    def _hear_dense(self, host: int, values: F32, slots: F32 | None, contained: int) -> None:
        if slots is None:
            self._parts[host].copy(self._dense, values)
        else:
            part = self._parts[host]
            own = (part.take(gradient) for gradient in self._dense_since(contained))
            self._own_dense[host].hear(values, slots, own, self._version)

    def _dense_since(self, contained: int) -> Iterator[F32]:
        """Return the dense gradients of all batches from one on, in their order."""
        units: dict[BatchKey, Sequence[F32] | F32] = {key: owed.dense for key, (owed, _) in self._owed.items()}
        units |= {key: unit.dense for key, unit in self._units.items()}
        for key in sorted(units):
            if self._fresh.count(key.n) >= contained:
                yield from units[key]

    def fill(self, work: BatchWork) -> None:
        """Copy the rows of a batch to its buffers, or let it have them on the device; parameters are lent."""
        unit = self._unit_of(work)
        count, used = self._fresh.count(work.key.n), {}
        with self._phases("pull"):
            for name, routed in work.routed.items():
                cached, rows = self._rows[name], self._needs(work, name)
                if isinstance(cached, DeviceCachedRows):
                    work.there[name] = self._lend(work, name, cached, rows)
                else:
                    cached.read(rows, work.rows(name, cached.width))
                heard, versions = cached.ages(rows)
                for host in np.flatnonzero(np.diff(routed.bounds)).tolist():
                    oldest = int(versions[routed.bounds[host] : routed.bounds[host + 1]].min())
                    unit.versions[host] = min(unit.versions.get(host, oldest), oldest)
                if name in self._names and len(rows):
                    ages = count - heard
                    device = self._device.name if name in self._there else ""
                    used[self._names[name]] = CacheUse(age=int(ages.sum()), oldest=int(ages.max()), device=device)
            work.dense = self._dense
        self._exchange.add(caches=used)

    def _needs(self, work: BatchWork, group: str) -> U32:
        """Return where the rows of a batch stand."""
        asked = self._asked[work.key.n]
        return np.concatenate([asked[host].needs[group] for host in range(self._job.hosts)])

    def _lend(self, work: BatchWork, group: str, cached: DeviceCachedRows, rows: U32) -> RowsThere:
        gathered = self._unit_of(work).rows[group]
        assert isinstance(gathered, DeviceGathered)
        own = OwnUnit(self._fresh.count(self._first_of(work)), self._version) if self._mode.staleness else None
        return cached.lend(work.routed[group].ids, rows, gathered, self._shown.counts(work, group), own)

    def _unit_of(self, work: BatchWork) -> _Unit:
        """Return what is gathered for the unit of a batch."""
        key = work.key._replace(n=self._first_of(work))
        if key not in self._units:
            self._units[key] = _Unit(self._spare.pop() if self._spare else self._make_sums())
        return self._units[key]

    def _first_of(self, work: BatchWork) -> int:
        """Return the first batch of a batch's unit."""
        return work.key.n - work.key.n % self._mode.unit

    def learn(self, work: BatchWork) -> None:
        """Add the gradients of a batch to those of its unit, and take their steps; its rows may go."""
        unit = self._unit_of(work)
        with self._phases("push"):
            for name, routed in work.routed.items():
                gathered, gradients = unit.rows[name], work.row_gradients[name]
                if isinstance(gathered, Gathered):
                    gathered.add(routed.ids, gradients, *self._shown.counts(work, name))
                self._count_gradients(name, len(routed), _HINT)
            unit.dense.append(work.gradient.copy())
        self._learn_there(work)
        self._step(work)
        unit.learned.samples += work.read.size
        unit.learned.loss += work.loss
        del self._asked[work.key.n]
        self._let_go()

    def _learn_there(self, work: BatchWork) -> None:
        """Let the gradients of rows that are on the device have their effect there, steps included."""
        with self._phases("rule"), self._device.current():
            for name, rows in work.there.items():
                rows.learn(work.row_gradients[name])
        work.there.clear()

    def _step(self, work: BatchWork) -> None:
        """Take the steps of a batch that hosts will take later."""
        if not self._mode.staleness:  # they have before the next one is computed
            return
        unit = self._fresh.count(self._first_of(work))
        with self._phases("rule"):
            for name, routed in work.routed.items():
                cached, gradients = self._rows[name], work.row_gradients[name]
                if isinstance(cached, CachedRows):
                    cached.learn(routed.ids, self._needs(work, name), gradients, unit, self._version)
            for host, own in enumerate(self._own_dense):
                if self._dense_heard[host] <= unit:  # else it had the batch, from an attempt that was lost
                    own.learn(self._parts[host].take(work.gradient), self._version)

    def _count_gradients(self, name: str, rows: int, hint: int = 0) -> None:
        """Count what pushing so many gradients would take; fewer than none for those that are pushed."""
        if name in self._names:
            each = 4 * self._rows[name].width + _ID + hint + (8 if name in self._shown.groups else 0)
            self._exchange.add(caches={self._names[name]: CacheUse(saved_bytes=rows * each)})

    def _let_go(self) -> None:
        """Let rows go that are more than can be kept, but for those that a batch under way has asked for."""
        first = self._fresh.count(min(self._asked)) if self._asked else 1 << 62
        with self._phases("pull"):
            for rows in self._rows.values():
                rows.let_go(first)

    # --- a unit

    def settle(self, unit: BatchKey, works: Sequence[BatchWork], host: int, settles: int = 0) -> PushedGradients:
        """Return a host's share of what is owed for a unit."""
        if unit not in self._owed:
            with self._phases("push"):
                self._owed[unit] = self._close(unit)
        owed, versions = self._owed[unit]
        with self._phases("push"):
            rows = owed.rows_of(host, versions.get(host), self._shown.groups)
            spans = self._parts[host].spans
            dense = np.concatenate([owed.dense[:, span] for span in spans], axis=1) if spans else None
        learned = owed.learned_at(host)
        return PushedGradients(rows, dense, learned.samples, learned.loss)

    def _close(self, key: BatchKey) -> tuple[Settlement, dict[int, int]]:
        unit = self._units.pop(key)
        with self._device.current():
            rows = take_gathered(unit.rows)
        self._spare.append(unit.rows)
        for name, owed in rows.items():
            self._count_gradients(name, -len(owed.ids))
        return Settlement.of(rows, self._owners, np.stack(unit.dense), unit.learned), unit.versions

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a unit."""
        self._owed.pop(unit, None)
        self._fresh.settled(unit.n)

    def refresh(self, host: int, refreshed: Refreshed) -> None:
        """Nobody asks for what others changed: rows that are too old are asked for again."""
        raise TypeError(f"host {host} answered a worker that follows nothing")

    @property
    def size(self) -> Exchange:
        """How much is kept here."""
        rows = list(self._rows.values())
        return Exchange(local_rows=sum(map(len, rows)), local_bytes=sum(cached.nbytes for cached in rows))
