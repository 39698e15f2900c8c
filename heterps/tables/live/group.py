"""The rows of one group on one shard host, in partitions that threads can work on side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError, TableFullError
from heterps.tables.hashing import RESERVED, check_ids
from heterps.tables.live.budget import SHARE, MemoryLimit, evict, full_error
from heterps.tables.live.cold_rows import DiskTier
from heterps.tables.live.gradients import NOTHING, PushCounts, RowGradients
from heterps.tables.live.owners import Owners, Partition
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.readers import Changes, Readers
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.live.tiered import TieredPartition
from heterps.tables.live.waiting_rows import WaitingPartition
from heterps.tables.loops.row_loops import NO_ROW
from heterps.tables.loops.splitting import split_ids
from heterps.tables.loops.store import GradientColumns
from heterps.tables.snapshots.records import fill
from heterps.tables.specs.initialisers import Zeros
from heterps.tables.specs.rules import Sum
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["RowGroup"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_FAR = 64  # calls at once, at most, whose new rows are not counted yet
_NONE: I32 = np.empty(0, np.int32)


class _Work(threading.local):
    """Buffers of one calling thread, grown as needed and kept."""

    def __init__(self) -> None:
        self.order = self.missing = self.all = np.empty(0, np.int32)

    def reserve(self, n: int) -> None:
        if len(self.order) < n:
            self.order, self.missing = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
            self.all = np.arange(2 * n, dtype=np.int32)


class RowGroup:
    """See :class:`~heterps.tables.specs.spec.GroupSpec` for what a group is.

    Parameters
    ----------
    owned
        The logical shards held here.
    owners
        Threads that work on a call together, each on its own partition: a range of logical shards with an index, rows
        and a lock of its own. There are as many partitions as threads.
    tier
        How rows are kept if the storage is "ssd".
    memory
        What all groups of the shard host may take together.
    adds
        What arrives are changes to be added, not gradients for the rule.
    """

    def __init__(
        self,
        spec: GroupSpec,
        *,
        seed: int,
        owned: Sequence[int],
        owners: Owners | None = None,
        tier: DiskTier | None = None,
        memory: MemoryLimit | None = None,
        adds: bool = False,
    ) -> None:
        self._memory = memory  # shared with the other groups of the shard host
        self.spec, self.layout = spec, RowLayout(spec, seed, adds=adds)
        self.owned = tuple(sorted(owned))
        self._owners = owners or Owners()
        count = max(1, min(self._owners.threads, len(self.owned)))
        self._part_of = np.full(spec.n_shards, -1, np.int32)
        self._part_of[list(self.owned)] = np.arange(len(self.owned)) * count // max(len(self.owned), 1)
        self._tier, self._count = _tier(spec, tier), count
        self._whole = count == 1 and len(self.owned) == spec.n_shards
        self.partitions = self._new_partitions()
        self.waiting = self._waiting_room(seed)
        self._work = _Work()
        self._full = threading.RLock()
        self.evicted = 0
        self.readers = Readers(self)
        if memory is not None:
            memory.count(self)

    def _new_partitions(self) -> list[Partition]:
        count, tier = self._count, self._tier
        if tier is None:
            if self.layout.waits:
                return [WaitingPartition(self.layout, share=count) for _ in range(count)]
            return [RowPartition(self.layout, share=count) for _ in range(count)]
        return [TieredPartition(self.layout, tier, tier.hot_bytes // count) for _ in range(count)]

    def clear(self) -> None:
        """Forget all rows."""
        self.partitions = self._new_partitions()
        self.readers.clear()
        if self.waiting is not None:
            self.waiting.clear()

    def _waiting_room(self, seed: int) -> RowGroup | None:
        """Return where shows and clicks of ids without a row are counted, if the entry wants that."""
        if self.spec.entry is None or not self.spec.entry.counts:
            return None
        table = TableSpec(f"{self.spec.name}/waiting", 2, Sum(), Zeros())
        spec = GroupSpec(table.name, (table,), self.spec.n_shards)
        return RowGroup(spec, seed=seed, owned=self.owned, owners=self._owners)

    def __len__(self) -> int:
        return sum(map(len, self.partitions))

    @property
    def only(self) -> RowPartition:
        """The partition of a group that has one, in memory."""
        (part,) = self.partitions
        assert isinstance(part, RowPartition)
        return part

    @property
    def nbytes(self) -> int:
        """Bytes in use by indices and rows."""
        return sum(part.nbytes for part in self.partitions) + (self.waiting.nbytes if self.waiting else 0)

    @property
    def resident_bytes(self) -> int:
        """Bytes of them that are in memory now, not on disk."""
        waiting = self.waiting.nbytes if self.waiting else 0
        return sum(part.resident_bytes for part in self.partitions) + waiting

    @property
    def memory_bytes(self) -> int:
        """Bytes in use that are not on disk, or will be when the index of these rows has doubled next."""
        return sum(part.memory_bytes for part in self.partitions) + (self.waiting.nbytes if self.waiting else 0)

    @property
    def _memory_of_row(self) -> int:
        return 0 if self.spec.on_disk else self.layout.row_bytes

    def _most_rows(self) -> int | None:
        """Return how many rows there may be: by the group's budget, and by what the shard host's memory leaves."""
        if self._memory is None:
            return self.spec.budget
        most = sum(part.high for part in self.partitions) + self._memory.rows(self._memory_of_row)
        return most if self.spec.budget is None else min(most, self.spec.budget)

    def partition_of(self, shard: int) -> int:
        """Return the number of the partition with a logical shard that is held here."""
        return int(self._part_of[shard])

    def split(self, ids: U64) -> tuple[I32, I64]:
        """Return positions in order of partition, and where each partition's begin."""
        self._work.reserve(len(ids))
        if self._whole:
            order, bounds = self._work.all, np.array([0, len(ids)])
            bad = int(ids.argmax()) if len(ids) and ids.max() == RESERVED else -1  # it is the largest number
        else:
            order, bounds = self._work.order, np.empty(len(self.partitions) + 1, np.int64)
            bad = int(split_ids(ids, self._part_of, self._work.missing, order, bounds))
        if bad >= 0:
            self._complain(int(ids[bad]))
        return order, bounds

    def _complain(self, id_: int) -> None:
        if id_ == RESERVED:
            raise TableError(f"group {self.spec.name!r}: 2**64 - 1 is reserved and cannot be an id")
        raise TableError(f"group {self.spec.name!r}: id {id_} belongs to a logical shard that this host does not hold")

    def pull(self, ids: Any, *, train: bool, out: F32 | None = None, step: int = 0) -> tuple[F32, U32]:
        """Return values and rows of ids, creating absent ones when training (if the group creates on pull)."""
        make = train and self.spec.create_on == "pull" and self.spec.entry is None
        return self._pull(ids, make, out, step)

    def create(self, ids: Any) -> U32:
        """Give all ids a row, whatever the entry says; return the rows."""
        return self._pull(ids, True, None, 0)[1]

    def _pull(self, ids: Any, make: bool, out: F32 | None, step: int) -> tuple[F32, U32]:
        ids = check_ids(ids, f"group {self.spec.name!r}")
        order, bounds = self.split(ids)
        values, rows = self._out(len(ids), out), np.empty(len(ids), np.uint32)
        flat = values.reshape(-1)
        with self._room_for(ids, order, bounds, make):

            def work(part: Partition, lo: int, hi: int) -> tuple[Partition, I32]:
                if isinstance(part, TieredPartition):
                    return part, part.pull_there(ids, order, lo, hi, rows, flat, make)
                part.pull(ids, order, lo, hi, rows, flat, make, step)
                return part, _NONE

            for part, absent in _by_partition(self._owners.run(self.partitions, bounds, work)):
                self._bring(part, ids, absent, 0, len(absent))
                for lo in range(0, len(absent), part.turn):
                    with part.lock:
                        part.pull(ids, absent, lo, min(lo + part.turn, len(absent)), rows, flat, make, step)
        return values, rows

    def prefetch(self, ids: Any) -> None:
        """Bring rows into memory that will be asked for soon; of ids that have one, and on disk only."""
        if self._tier is not None:
            ids = check_ids(ids, f"group {self.spec.name!r}")
            order, bounds = self.split(ids)
            for part, (lo, hi) in zip(self.partitions, pairwise(bounds.tolist()), strict=True):
                self._bring(part, ids, order, lo, hi)

    def _bring(self, part: Partition, ids: U64, order: I32, lo: int, hi: int) -> None:
        """Bring rows on disk into memory, many at a time."""
        if isinstance(part, TieredPartition):
            most = max(part.turn, part.capacity // 4)
            for first in range(lo, hi, most):
                part.bring(ids, order, first, min(first + most, hi))

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on; nothing is applied meanwhile."""
        self.layout.rate = rate
        numbers = self.layout.rule_numbers(0)
        for part in self.partitions:
            part.set_numbers(numbers)

    def _out(self, n: int, out: F32 | None) -> F32:
        width = self.spec.width
        if out is None:
            return np.empty((n, width), np.float32)
        if out.dtype != np.float32 or out.shape[1:] != (width,) or len(out) < n or not out.flags.c_contiguous:
            raise TableError(f"group {self.spec.name!r}: out must be contiguous float32 of at least {(n, width)}")
        return out[:n]

    @contextmanager
    def prepared(self, grads: RowGradients) -> Iterator[Callable[[int, int], PushCounts]]:
        """Check gradients (each id once) and make room for their rows; yield what applies them.

        All that can be refused is refused here, so that a push to several groups is refused as a whole. What is
        yielded takes the step that schedules and recency count by, and 64 bits for the entry's randomness.
        """
        grads.check(self.spec.name, self.spec.width)
        g = grads.columns(self.spec.name)
        order, bounds = self.split(g.ids)
        make = self.spec.entry is None
        with self._room_for(g.ids, order, bounds, make), self._room_on_disk(bounds):

            def apply(step: int, key: int) -> PushCounts:
                counts, missing = self._apply(g, order, bounds, step, make)
                return counts if len(missing) == 0 else counts.plus(self._push_late(grads.take(missing), step, key))

            yield apply

    def push(self, grads: RowGradients, *, step: int = 0, key: int = 0) -> PushCounts:
        """Apply gradients; see :meth:`prepared`."""
        with self.prepared(grads) as apply:
            return apply(step, key)

    def _apply(self, g: GradientColumns, order: I32, bounds: I64, step: int, make: bool) -> tuple[PushCounts, I64]:
        numbers = self.layout.rule_numbers(step) if self.layout.scheduled else None
        late = self._work.missing

        def work(part: Partition, lo: int, hi: int) -> tuple[PushCounts, I64]:
            if numbers is not None:
                part.set_numbers(numbers)
            stats = part.push(g, order, lo, hi, make, step, late[lo:hi]).tolist()
            return PushCounts(*stats[:3]), late[lo : lo + stats[3]].astype(np.int64)

        done = self._owners.run(self.partitions, bounds, work)
        missing = np.concatenate([np.empty(0, np.int64), *(some for _, some in done)])
        return reduce(PushCounts.plus, (counts for counts, _ in done), NOTHING), np.sort(missing)

    def _push_late(self, late: RowGradients, step: int, key: int) -> PushCounts:
        """Apply gradients of ids without a row: those that the entry admits and there is room for."""
        admitted = late.take(np.flatnonzero(self._admit(late, key)))
        g = admitted.columns(self.spec.name)
        order, bounds = self.split(g.ids)
        try:
            with self._room_for(g.ids, order, bounds, True), self._room_on_disk(bounds):
                counts, _ = self._apply(g, order, bounds, step, True)
        except TableFullError:
            return PushCounts(dropped=len(late))
        if self.waiting is not None:
            self.waiting.delete(admitted.ids)
        return counts._replace(dropped=len(late) - len(admitted))

    def _admit(self, late: RowGradients, key: int) -> npt.NDArray[np.bool_]:
        """Count what was seen of ids without a row and ask the entry which get one."""
        entry = self.spec.entry
        assert entry is not None
        shows = np.ones(len(late), np.float32) if late.show is None else late.show
        clicks = np.zeros(len(late), np.float32) if late.click is None else late.click
        if self.waiting is not None:
            seen = RowGradients(late.ids, np.stack([shows, clicks], 1).astype(np.float32))
            self.waiting.push(seen)
            shows, clicks = self.waiting.pull(late.ids, train=False)[0].T
        return entry.admit(late.ids, shows, clicks, key)

    @contextmanager
    def _room_for(self, ids: U64, order: I32, bounds: I64, make: bool) -> Iterator[None]:
        """Be a context in which the absent ids fit into the budget, after evicting or with an error."""
        budget = self._most_rows() if make else None
        # Far from a limit of memory nobody waits for others: what they may add meanwhile fits as well.
        if budget is None or (self.spec.budget is None and len(self) + _FAR * len(ids) < budget):
            yield
            return
        with self._full:
            if len(self) + len(ids) > budget:
                self._free_rows(ids, order, bounds, budget)
            yield

    @contextmanager
    def _room_on_disk(self, bounds: I64) -> Iterator[None]:
        """Be a context in which rows can leave memory for as many others as come, or have an error at once."""
        with ExitStack() as promises:
            for part, (lo, hi) in zip(self.partitions, pairwise(bounds.tolist()), strict=True):
                if isinstance(part, TieredPartition):
                    promises.enter_context(part.promised(hi - lo))
            yield

    def _free_rows(self, ids: U64, order: I32, bounds: I64, budget: int) -> None:
        rows = np.empty(len(ids), np.uint32)
        for p, part in enumerate(self.partitions):
            with part.lock:
                part.find(ids, order, bounds[p], bounds[p + 1], rows)
        present = rows != NO_ROW
        wanted = len(np.unique(ids[~present]))
        excess = len(self) + wanted - budget
        if excess <= 0:
            return
        keep = np.unique(ids[present])
        spared = len(keep)
        if self.spec.when_full == "refuse" or wanted + spared > budget:
            raise full_error(self.spec, self._memory, len(self), wanted)
        self.evicted += evict(self.spec, self.partitions, keep, min(max(excess, budget // SHARE), len(self) - spared))

    def changed(self, reader: str, since: int | None = None) -> Changes:
        """Return the rows that changed since a mark of a reader (:meth:`~heterps.tables.live.readers.Readers.changed`).

        The first call makes the reader known and returns everything.
        """
        return self.readers.changed(reader, since)

    def find(self, ids: Any) -> U32:
        """Return the rows of ids within their partitions, :data:`NO_ROW` where there is none."""
        ids = check_ids(ids, f"group {self.spec.name!r}")
        order, bounds = self.split(ids)
        rows = np.full(len(ids), NO_ROW, np.uint32)
        for p, part in enumerate(self.partitions):
            with part.lock:
                part.find(ids, order, bounds[p], bounds[p + 1], rows)
        return rows

    def slots(self, ids: Any) -> F32:
        """Return the optimiser slots of ids, as they start where there is no row."""
        ids = check_ids(ids, f"group {self.spec.name!r}")
        order, bounds = self.split(ids)
        first, n = self.layout.state, self.layout.slots
        out, rows = np.tile(self.layout.template[:n], (len(ids), 1)), np.full(len(ids), NO_ROW, np.uint32)
        for p, part in enumerate(self.partitions):
            at = order[bounds[p] : bounds[p + 1]]
            with part.lock:
                part.find(ids, order, bounds[p], bounds[p + 1], rows)
                at = at[rows[at] != NO_ROW]
                out[at] = part.words_of(rows[at].astype(np.int64)).view(np.float32)[:, first : first + n]
        return out

    def delete(self, ids: Any) -> int:
        """Delete the rows of ids that have one; return how many had."""
        ids = np.unique(check_ids(ids, f"group {self.spec.name!r}"))
        order, bounds = self.split(ids)
        rows = np.empty(len(ids), np.uint32)
        deleted = 0
        for p, part in enumerate(self.partitions):
            with part.lock:
                part.find(ids, order, bounds[p], bounds[p + 1], rows)
                mine = rows[order[bounds[p] : bounds[p + 1]]]
                mine = mine[mine != NO_ROW]
                part.delete(mine)
                deleted += len(mine)
        return deleted

    def set_table(self, table: str, ids: Any, values: F32, slots: F32 | None = None) -> None:
        """Set the values (and slots) of one table in the rows of unique ids, creating absent ones."""
        ids = check_ids(ids, f"group {self.spec.name!r}")
        for part, at, rows in self.made(ids):
            part.set_columns(rows, self.spec.columns(table), values[at])
            if slots is not None and table in self.layout.slot_columns:
                part.set_slots(rows, self.layout.slot_columns[table], slots[at])

    def made(self, ids: U64, *, as_they_are: bool = False) -> Iterator[tuple[Partition, I32, I64]]:
        """Give ids their rows, whatever the entry says; yield some positions at a time with their rows, the partition's
        lock held: rows are good until the next. They have room for all columns, unless they are wanted as they are.
        """
        order, bounds = self.split(ids)
        order = order[: len(ids)].copy()  # others of this thread may split meanwhile
        with self._room_for(ids, order, bounds, True):
            for part, (first, last) in zip(self.partitions, pairwise(bounds.tolist()), strict=True):
                for lo in range(first, last, part.turn):
                    at = order[lo : min(lo + part.turn, last)]
                    every, rows = np.arange(len(at), dtype=np.int32), np.empty(len(at), np.uint32)
                    out = np.empty(len(at) * self.spec.width, np.float32)
                    with part.lock:
                        part.pull(ids[at], every, 0, len(at), rows, out, True, 0)
                        yield part, at, rows.astype(np.int64) if as_they_are else part.whole(rows.astype(np.int64))

    def put(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set whole rows (:mod:`~heterps.tables.snapshots.records`) of unique ids, creating absent ones.

        Whatever the rows were before is gone, so nobody else may change them meanwhile.
        """
        ids = check_ids(columns["id"], f"group {self.spec.name!r}")
        for part, at, rows in self.made(ids, as_they_are=True):
            words = np.zeros((len(at), self.layout.stride), np.uint32)
            fill(self.layout, {name: array[at] for name, array in columns.items()}, words)
            part.set_words(rows, words)

    def append(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add rows that were saved (:mod:`~heterps.tables.snapshots.records`) to an empty group; then
        :meth:`build_index`.
        """
        ids = columns["id"]
        order, bounds = self.split(ids)
        for p, part in enumerate(self.partitions):
            at = order[bounds[p] : bounds[p + 1]]
            mine = columns if len(at) == len(ids) else {name: array[at] for name, array in columns.items()}
            with part.lock:
                words = part.append(len(at))
            fill(self.layout, mine, words)
            with part.lock:
                part.appended(words)

    def build_index(self) -> None:
        """Make the appended rows known, and let those go that are beyond the budget."""
        for part in self.partitions:
            with part.lock:
                part.build_index()
        most = self._most_rows()
        excess = 0 if most is None else len(self) - most
        if self._memory is not None and self._memory.taken > self._memory.limit_bytes:
            excess = max(excess, 1)
        if excess > 0:
            if self.spec.when_full == "refuse":
                raise full_error(self.spec, self._memory, len(self), 0)
            self.evicted += evict(self.spec, self.partitions, np.empty(0, np.uint64), excess)


def _by_partition(found: list[tuple[Partition, I32]]) -> Iterator[tuple[Partition, I32]]:
    """Put the positions of a partition together; those without any are left out."""
    for part in {id(part): part for part, absent in found if len(absent)}.values():
        yield part, np.concatenate([absent for other, absent in found if other is part])


def _tier(spec: GroupSpec, tier: DiskTier | None) -> DiskTier | None:
    if not spec.on_disk:
        return None
    if tier is None:
        raise TableError(f"group {spec.name!r} has storage {spec.storage!r}: give the shard a folder for its rows")
    return tier
