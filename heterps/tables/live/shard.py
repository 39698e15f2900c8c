"""What one shard host holds: its logical shards of all groups and its dense parameters.

**The only place in the program that changes a parameter** is :meth:`Shard.apply`. Which batches were applied is not
known here: in a run the protocol's :class:`~heterps.protocol.host.state.HostState` keeps that ledger and asks for each
batch once. Tables that no run looks after are a :class:`KeyedShard`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.html_table import html_table
from heterps.protocol import BatchKey, Window
from heterps.tables.hashing import key_of
from heterps.tables.live.ageing import Kind, after_save, shrink
from heterps.tables.live.budget import MemoryLimit
from heterps.tables.live.cold_rows import DiskTier
from heterps.tables.live.dense import DenseBlock
from heterps.tables.live.gradients import NOTHING, PushCounts, RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.live.owners import Owners
from heterps.tables.live.region import physical_bytes
from heterps.tables.live.shard_cut import Follow, Marks, ShardCut
from heterps.tables.specs.spec import DenseSpec, GroupSpec

if TYPE_CHECKING:
    from heterps.tables.on_device.device_dense import DeviceDense
    from heterps.tables.on_device.device_group import DeviceGroup

__all__ = ["Applied", "KeyedShard", "PulledRows", "Shard"]

U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

#: Moments that are remembered for a reader: its last good one, and cuts that were begun since.
MOMENTS = 4


class PulledRows(NamedTuple):
    """Values ``[n, width]`` of the ids asked for, where their rows stand (a hint for the push), the shard's version."""

    values: F32
    rows: U32
    version: int


@dataclass(frozen=True)
class Applied:
    """What a push did; a duplicate did nothing.

    ``staleness`` is the number of pushes that were applied between the pull of these gradients' values and now,
    ``rule_s`` the seconds that rules took; the rest of a push finds rows and makes room for new ones.
    """

    key: BatchKey
    duplicate: bool
    version: int
    counts: PushCounts = NOTHING
    dense_skipped: int = 0
    staleness: int | None = None
    rule_s: float = 0.0

    @property
    def skipped(self) -> int:
        """Rows left as they were because their gradient was NaN or Inf."""
        return self.counts.skipped + self.dense_skipped


class Shard:
    """Parameters of one shard host. Safe to call from several threads.

    Parameters
    ----------
    groups, dense
        What the model has; dense parameters are those that live on this host.
    seed
        Of first values.
    owned
        Logical shards held here, per group name or for all groups; None for all.
    threads
        How many work on one call together, each on the logical shards it owns; results do not depend on it.
    folder
        Where groups with storage "ssd" keep the rows that are not in memory, in files without a name.
    hot_bytes
        Memory for those of their rows that are used most, of all these groups together: by default half of
        ``memory_bytes``, or an eighth of the machine's.
    memory_bytes
        What indices and rows in memory may take; new ids beyond that are refused, or old rows evicted, as each group's
        ``when_full`` says. None for as many as fit.
    adds
        What is pushed are changes to be added: rules are applied by those who send them. Names of groups: to these.
    dense_block
        Where dense parameters are: made from their specifications and the seed; by default in memory.
    on_gpu
        Makes what trains rows of a group with storage "gpu" on a device; by default they are trained where they are.
    """

    def __init__(
        self,
        groups: Iterable[GroupSpec] = (),
        dense: Iterable[DenseSpec] = (),
        *,
        seed: int = 0,
        owned: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        threads: int = 1,
        folder: str | Path | None = None,
        hot_bytes: int | None = None,
        memory_bytes: int | None = None,
        adds: bool | Collection[str] = False,
        dense_block: Callable[..., DenseBlock | DeviceDense] = DenseBlock,
        on_gpu: Callable[[RowGroup], DeviceGroup] | None = None,
    ) -> None:
        self.seed = seed
        groups, owners = tuple(groups), Owners(threads)
        tier = None if folder is None else _tier(groups, Path(folder), hot_bytes, memory_bytes)
        memory = None if memory_bytes is None else MemoryLimit(memory_bytes)
        self.memory = memory
        """What groups and dense parameters may take together, None: as much as there is. Its limit may change."""
        self._groups: dict[str, RowGroup] = {}  # as they are but for what is newer above
        self._above: dict[str, DeviceGroup] = {}  # by group: what trains its rows on a device
        for spec in groups:
            if spec.name in self._groups:
                raise TableError(f"two groups of one name: {spec.name!r}")
            mine = _owned(owned, spec)
            added = adds if isinstance(adds, bool) else spec.name in adds
            made = RowGroup(spec, seed=seed, owned=mine, owners=owners, tier=tier, memory=memory, adds=added)
            self._groups[spec.name] = made
            if on_gpu is not None and spec.on_gpu and mine:
                self._above[spec.name] = on_gpu(made)
        self.dense = dense_block(tuple(dense), seed=seed, **({"adds": True} if adds is True else {}))
        self.incarnation = uuid.uuid4().hex  # with the version: which state this is, wherever versions begin anew
        if memory is not None:
            memory.fixed_bytes = self.dense.nbytes
        self._version = 0
        self._gate = threading.Condition()
        self._applying: set[BatchKey] = set()
        self._closed = self._cutting = False
        self._moments: dict[str, dict[str, Marks]] = {}  # of each reader, oldest first: what it may ask from

    @property
    def version(self) -> int:
        """Number of pushes applied to these tables."""
        return self._version

    @property
    def groups(self) -> dict[str, RowGroup]:
        """The rows by group, to be read or changed: those that are trained on a device come down for it."""
        for above in self._above.values():
            above.leave()
        return self._groups

    @property
    def above(self) -> Mapping[str, DeviceGroup]:
        """What is on a device, by group."""
        return self._above

    def group(self, name: str) -> RowGroup:
        """Return the rows of a group, to be read or changed."""
        if name in self._above:
            self._above[name].leave()
        return self._below(name)

    def _below(self, name: str) -> RowGroup:
        try:
            return self._groups[name]
        except KeyError:
            raise TableError(f"no group {name!r} on this shard host; there are {list(self._groups)}") from None

    def _trained(self, name: str) -> DeviceGroup | RowGroup:
        """Return what applies gradients to the rows of a group."""
        return self._above[name] if name in self._above else self._below(name)

    def _settle(self) -> None:
        """Let everything that was trained on a device come down, and stay there too."""
        for above in self._above.values():
            above.settle()

    def pull(self, group: str, ids: Any, *, train: bool = True, out: F32 | None = None) -> PulledRows:
        """Return the values of unique ids.

        Parameters
        ----------
        train
            Give new ids their rows; otherwise (and where an entry has not admitted an id) they read as zeros.
        out
            Contiguous float32 ``[>= len(ids), width]`` to write to. Not where rows are trained on a device: then the
            values are a copy there, and so are the rows.
        """
        version, above = self._version, self._above.get(group)
        if above is not None and train:
            values: Any
            hint: Any
            values, hint = above.pull(ids)
            return PulledRows(values, hint, version)
        if above is not None:
            above.settle()
        values, rows = self._below(group).pull(ids, train=train, out=out, step=version)
        return PulledRows(values, rows, version)

    def pull_slots(self, group: str, ids: Any) -> F32:
        """Return the optimiser slots of unique ids."""
        return self.group(group).slots(ids)

    def pull_dense_slots(self, out: F32 | None = None) -> tuple[F32, F32]:
        """Return flat copies of the dense parameters and of their optimiser slots."""
        if not isinstance(self.dense, DenseBlock):
            raise TableError("dense parameters that are on a device keep their optimiser slots there")
        return self.dense.pull_slots(out)

    def on_disk(self, group: str) -> bool:
        """Tell whether rows of a group may be on disk."""
        return self._below(group).spec.on_disk and group not in self._above

    def prefetch(self, group: str, ids: Any) -> None:
        """Bring rows into memory that will be asked for soon, where they are on disk; nothing changes."""
        self._below(group).prefetch(ids)

    def pull_dense(self, out: F32 | None = None) -> F32:
        """Return a flat copy of the dense parameters on the host."""
        return self.dense.pull(out)

    def pull_pushed(self, out: F32 | None = None) -> F32:
        """Return a flat copy of the dense parameters that pushes are for."""
        return self.dense.pull_pushed(out) if isinstance(self.dense, DenseBlock) else self.dense.pull(out)

    def apply(
        self,
        key: BatchKey,
        grads: Mapping[str, RowGradients] | None = None,
        dense: F32 | Mapping[str, Any] | None = None,
    ) -> Applied:
        """Apply the gradients of one batch, or of several: then ``dense`` may have a row for each, which is a step.

        That they were not applied before is for the caller to know.
        """
        grads = {} if grads is None else grads
        if not self._begin(key):
            return Applied(key, True, self._version)
        done = False
        try:
            step = self._version
            counts, rule_s = self._push_groups(grads, step, key_of(self.seed, "/".join(map(str, key))))
            start = perf_counter()
            skipped = sum(self.dense.push(each, step=step) for each in _steps(dense))
            rule_s += perf_counter() - start
            done = True
        finally:
            self._end(key, done)
        versions = [g.version for g in grads.values() if g.version is not None]
        stale = step - min(versions) if versions else None
        return Applied(key, False, self._version, counts, skipped, stale, rule_s)

    def shrink(self, group: str | None = None) -> int:
        """Age counters and delete rows not worth keeping (of all groups with an accessor); return how many went."""
        chosen = [self.group(group)] if group is not None else [g for g in self.groups.values() if g.spec.accessor]
        return sum(shrink(each) for each in chosen)

    def after_save(self, kind: Kind) -> None:
        """Note that a save of this kind has succeeded everywhere (:func:`~heterps.tables.live.ageing.after_save`)."""
        for group in self.groups.values():
            after_save(group, kind)

    def clear(self) -> None:
        """Forget all rows and batches (before a restore)."""
        for above in self._above.values():
            above.forget()
        for group in self._groups.values():
            group.clear()
        self._moments.clear()
        self.adopt(Window(), 0)

    def adopt(self, ledger: Window, version: int) -> None:
        """Take over how many pushes are in the rows that were restored; which ones is for the ledger's owner."""
        self.incarnation, self._version = uuid.uuid4().hex, version

    @property
    def nbytes(self) -> int:
        """Bytes in use by rows, indices and dense parameters; copies on a device do not count."""
        return self.dense.nbytes + sum(group.nbytes for group in self._groups.values())

    @property
    def resident_bytes(self) -> int:
        """Bytes of them that are in memory now, not on disk."""
        return self.dense.nbytes + sum(group.resident_bytes for group in self._groups.values())

    def set_rate(self, rate: float) -> None:
        """Multiply all learning rates by a factor from now on; nothing is applied meanwhile."""
        for group in self._groups.values():
            group.set_rate(rate)
        for above in self._above.values():
            above.set_rate(rate)
        self.dense.set_rate(rate)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return rows and bytes by name of the tables that share rows, and the bytes of dense parameters.

        Rows stay where they are: what is newer on a device counts once it has come down.
        """
        named = {", ".join(table.name for table in g.spec.tables): g for g in self._groups.values()}
        found = {name: (len(group), group.nbytes) for name, group in named.items()}
        return found | ({"dense parameters": (0, self.dense.nbytes)} if self.dense.nbytes else {})

    def take_skipped(self) -> int:
        """Return how many rows a device has left as they were since the last call, for a gradient of NaN or Inf."""
        return self.dense.take_skipped() + sum(above.take_skipped() for above in self._above.values())

    def _repr_html_(self) -> str:
        rows = [
            (table.name, table.dim, type(table.rule).__name__, f"{len(group):,}", f"{group.nbytes:,}")
            for group in self.groups.values()
            for table in group.spec.tables
        ]
        caption = f"Tables of {len(self.groups)} groups, {self.nbytes:,} bytes, version {self.version}"
        return html_table(caption, ("table", "dim", "rule", "rows of its group", "bytes of its group"), rows)

    def _push_groups(self, grads: Mapping[str, RowGradients], step: int, key: int) -> tuple[PushCounts, float]:
        with ExitStack() as stack:
            applies = [stack.enter_context(self._trained(name).prepared(rows)) for name, rows in grads.items()]
            start = perf_counter()
            counts = reduce(PushCounts.plus, (apply(step, key) for apply in applies), NOTHING)
            return counts, perf_counter() - start

    def cut(self, reader: str | None = None, *, moment: str = "", since: str | None = None) -> ShardCut:
        """Mark a cut: wait for pushes in flight, let new ones wait a moment, go on.

        One cut at a time; end it (it is a context manager) when it has been read.

        Parameters
        ----------
        reader, moment
            A reader that will ask for what changed since this cut, and what it calls the moment.
        since
            An earlier moment of the reader. Only what changed since is in the cut, and moments before it are forgotten;
            a moment that is not known here means all rows.
        """
        with self._gate:
            if self._cutting:
                raise TableError("this shard host is writing a cut already: let that one end first")
            self._cutting = self._closed = True
            try:
                while self._applying:
                    self._gate.wait()
                return self._cut(Follow() if reader is None else self._follow(reader, since), moment)
            finally:
                self._closed = False
                self._gate.notify_all()

    def _follow(self, reader: str, since: str | None) -> Follow:
        known = self._moments.setdefault(reader, {})
        if since in known:
            self._moments[reader] = known = {since: known[since]}
        while len(known) >= MOMENTS:  # of full cuts that failed, perhaps
            known.pop(next(iter(known)))
        return Follow(reader, None if since is None else known.get(since, {}), tuple(known.values()))

    def _cut(self, follow: Follow, moment: str) -> ShardCut:
        self._settle()
        groups = tuple(self._groups.values())
        cut = ShardCut(groups, self.dense, self._ledger(), self._version, self._cut_done, follow)
        if follow.reader is not None:
            self._moments[follow.reader][moment] = cut.marks
        return cut

    def remember(self, reader: str, moment: str) -> None:
        """Let a reader ask for what changes from now on; only while nothing is pushed."""
        self.cut(reader, moment=moment).end()

    def follows(self, reader: str) -> bool:
        """Tell whether a reader's changes are noted."""
        return reader in self._moments

    def forget(self, reader: str) -> None:
        """Note nothing more for a reader."""
        if self._moments.pop(reader, None) is not None:
            for group in self._groups.values():
                for each in (group, group.waiting):
                    if each is not None:
                        each.readers.forget(reader)

    def _cut_done(self) -> None:
        self._cutting = False

    def _begin(self, key: BatchKey) -> bool:
        with self._gate:
            while key in self._applying or self._closed:
                self._gate.wait()
            if self._known(key):
                return False
            self._applying.add(key)
            return True

    def _end(self, key: BatchKey, done: bool) -> None:
        with self._gate:
            self._applying.discard(key)
            if done:
                self._note(key)
                self._version += 1
            self._gate.notify_all()

    # All with the gate held: a cut sees rows and ledger at one moment.

    def _ledger(self) -> Window | None:
        return None

    def _known(self, key: BatchKey) -> bool:
        return False

    def _note(self, key: BatchKey) -> None:
        pass


class KeyedShard(Shard):
    """Tables on their own: they keep the ledger that a shard host's state keeps in a run.

    Attributes
    ----------
    window
        Which batches are in the tables.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.window = Window()

    def push(
        self,
        key: BatchKey,
        grads: Mapping[str, RowGradients] | None = None,
        dense: F32 | Mapping[str, Any] | None = None,
    ) -> Applied:
        """Apply the gradients of one batch, once however often they arrive.

        A key that was applied changes nothing. A key that another thread is applying right now is waited for.
        """
        return self.apply(key, grads, dense)

    def adopt(self, ledger: Window, version: int) -> None:
        """Take over which batches are in the rows that were restored."""
        super().adopt(ledger, version)
        self.window = ledger.copy()

    def _ledger(self) -> Window:
        return self.window.copy()

    def _known(self, key: BatchKey) -> bool:
        return key in self.window

    def _note(self, key: BatchKey) -> None:
        self.window.add(key)


def _steps(dense: F32 | Mapping[str, Any] | None) -> Sequence[F32 | Mapping[str, Any]]:
    """Return the gradients of dense parameters, one for each step of their rules."""
    if dense is None:
        return ()
    return tuple(dense) if isinstance(dense, np.ndarray) and dense.ndim == 2 else (dense,)


def _tier(groups: Sequence[GroupSpec], folder: Path, hot_bytes: int | None, memory_bytes: int | None) -> DiskTier:
    """Return how rows on disk are kept: with an equal part of the memory for those that are used most."""
    given = (physical_bytes() // 8 if memory_bytes is None else memory_bytes // 2) if hot_bytes is None else hot_bytes
    return DiskTier(folder, given // max(1, sum(group.on_disk for group in groups)))


def _owned(owned: Sequence[int] | Mapping[str, Sequence[int]] | None, spec: GroupSpec) -> Sequence[int]:
    if owned is None:
        return range(spec.n_shards)
    return owned[spec.name] if isinstance(owned, Mapping) else owned
