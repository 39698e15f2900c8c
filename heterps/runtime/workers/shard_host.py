"""A shard host: carries out on its tables what the protocol's HostState decides.

Many threads call it. The state machine is behind a lock; rows have their own locks, so that pulls and pushes of several
workers run at once. In Sync a step's commit and the pulls that wait for it happen under the lock, in order.

A host may have a backup (:mod:`heterps.runtime.workers.mirror`) or be one (:mod:`heterps.runtime.workers.following`).
"""

from __future__ import annotations

import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device import to_host
from heterps.protocol import Window
from heterps.protocol.host.state import HostState
from heterps.protocol.words.decisions import (
    Answer,
    Apply,
    Commit,
    Confirm,
    Decision,
    Dismiss,
    Fill,
    Forward,
    Keep,
    Load,
    Loaded,
    Mark,
    Report,
    Serve,
    Take,
)
from heterps.protocol.words.events import CutAsked, Diverged, Event
from heterps.protocol.words.instructions import Attach, Detach, Discard, Rewind
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Acked, Granted, Pull, Push, Reply, Request, StoreGroup
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, StoredDense, Wanted, sum_pushed
from heterps.runtime.batch.phases import Phases
from heterps.runtime.config import settings
from heterps.runtime.cuts.cut_store import HostPart, host_state
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_dense, pack_reply, pack_rows, unpack_read, unpack_request, unpack_rows
from heterps.runtime.wire.peer import PeerLost
from heterps.runtime.wire.replica_packing import Filling, Forwarded
from heterps.runtime.wire.service import Address, Method
from heterps.runtime.workers.copy_readers import CopyReaders
from heterps.runtime.workers.cut_writer import CutWriter
from heterps.runtime.workers.following import Following
from heterps.runtime.workers.kept_dense import give_dense, take_dense
from heterps.runtime.workers.mirror import Mirror
from heterps.runtime.workers.read_ahead import read_ahead
from heterps.runtime.workers.stage_holder import LentGradient, StageHolder
from heterps.runtime.workers.turns import Turns
from heterps.runtime.workers.waiter import Waiter
from heterps.tables import Shard, restore, since_of, without_deleted
from heterps.tables.live.dense import DenseBlock

__all__ = ["ShardHost"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
Done = Callable[[Reply, Pulled | Refreshed | None], None]
# A Sync pull that is not due by then is answered "wait" and asked again: so the caller knows that we live, and its
# connection is free for what may have become more urgent, such as the word that its lane has stopped.
_PATIENCE_S = 0.05
_CUTS = "cuts"  # who reads changes here


class ShardHost:
    """One copy of a shard host.

    Parameters
    ----------
    job
        What the tables are, and how they are trained.
    host
        Its number; decides the shards and dense parameters that live here.
    copy
        See :class:`~heterps.protocol.host.state.HostState`.
    report
        Takes events for the run.
    cut_every
        Ask the run for a cut each time so many batches more were applied. Asked here, where they are counted, the cut
        is late by what is in flight only.
    threads, memory_bytes
        See :class:`~heterps.tables.Shard`; by default what the job says of memory.
    """

    def __init__(
        self,
        job: Job,
        host: int,
        copy: int,
        report: Callable[[Event], None],
        cut_every: int | None = None,
        *,
        threads: int = 1,
        memory_bytes: int | None = None,
    ) -> None:
        first, last = job.dense_ranges[host]
        self._job, self.model, self.host = job, job.model, host
        self._dense = job.model.parameters[first:last]  # that live here
        self._widths = {spec.name: spec.width for spec in job.model.groups}  # of rows
        self.holder = StageHolder(job) if job.is_holder(host) else None
        self._reduced = job.reduced_on(host)  # of these, those that an all-reduce group trains and gives back
        kept = {spec.name for spec in self._reduced}
        self._pushed = {spec.name for spec in self._dense if spec.name not in kept} if kept else None
        self._dense_size = sum(spec.size for spec in self._dense)
        self._pushed_size = sum(spec.size for spec in self._dense if spec.name not in kept)
        self._report, self._cut_every, self._threads = report, cut_every, threads
        # Then what is pushed are changes, made by those who have rows of their own: of all groups, or of some.
        self._adds = job.own_groups or job.mode.adds
        self._readers = CopyReaders(job.own_groups or None)  # those
        self._ordered = job.mode.ordered  # then requests are carried out under the lock, one after another
        self._memory_bytes = memory_bytes or job.memory_bytes
        self._bad_losses = settings().bad_losses  # in a row, before the run is told; 0: never
        self._retired = False  # the run has ended: no request is begun, so that the tables stay as they are
        self._patience_s = settings().call_s / 3  # of callers that wait for a backup
        self.lock = threading.RLock()  # around the state machine and what follows, but for reads of whole values
        self.state = HostState(copy, job.mode, job.lanes)
        self.turns = Turns(job.lanes)  # of the lanes of a Sync run
        self.counts = Counts()  # of what is in the tables; replaced with them
        self.phases = Phases()  # of all callers together
        self.shard: Shard | None = None  # None before the first Load and after close
        self._writer = CutWriter(host, report)
        self._kept: dict[Push, PushedGradients] = {}  # Sync: pushes that wait for their step, copied
        self._folder = ""  # of the cut that was last spoken of
        self._anew = True  # whether cut 0 means fresh tables, not those of the run before
        self._mirror: Mirror | None = None  # of the backup that this copy has, or is getting
        self._following = Following()  # what it does while it is a backup
        self._busy = 0  # requests that are being carried out beside each other, without the lock
        self._still = False  # somebody waits until there is none: nobody begins
        self._moved = threading.Condition(self.lock)  # one of the two has changed

    # --- entry points

    def fresh(self, owned: Sequence[int]) -> None:
        """Begin with tables as the seed gives them."""
        self.close()
        on_disk = any(group.on_disk for group in self.model.groups)
        wanted = settings()
        self.shard = Shard(
            self.model.groups,
            self._dense,
            seed=self.model.seed,
            owned=self._job.owned_groups(self.host, owned),
            threads=self._threads,
            folder=(wanted.disk_folder or tempfile.gettempdir()) if on_disk else None,
            hot_bytes=wanted.hot_rows_bytes,
            memory_bytes=self._memory_bytes,
            adds=self._adds,
            dense_block=partial(DenseBlock, pushed=self._pushed) if self.holder is None else self.holder.block,
            on_gpu=None if self.holder is None else self.holder.rows_on_device,
        )
        self.shard.set_rate(self._job.rate)
        self.counts = Counts()

    @property
    def waiting(self) -> int:
        """Requests that are being carried out; in Sync pushes that wait for their step."""
        return self._busy + len(self._kept)

    def limit_memory(self, memory_bytes: int) -> None:
        """Let the tables take so much from now on; rows beyond that stay, new ids are refused or old rows evicted."""
        self._memory_bytes = memory_bytes
        if self.shard is not None and self.shard.memory is not None:
            self.shard.memory.limit_bytes = memory_bytes

    def close(self) -> None:
        """Drop the tables; files of those on disk have no name and go with them."""
        self._end_mirror()
        self.shard = None

    def take_over(self, before: ShardHost, going_on: bool = False) -> None:
        """Go on with the tables of the run before; one that was left before it had any leaves nothing.

        ``going_on``: it is the same run, under another driver. Then what belongs to the rows comes along, and what
        the run began with is not here.
        """
        before._end_mirror()
        if going_on:
            self.state.go_on_as(before.state)
            self._kept = before._kept
        if before.shard is not None:
            self.shard, self.counts, self._anew = before.shard, before.counts, going_on
            self.shard.set_rate(self._job.rate)
            before._readers.dismiss(self.shard)
            before.shard = None  # who still knows it there must not read, or leave anything

    def deliver(self, message: Any, folder: str = "") -> None:
        """Take an instruction of the run; ``folder`` is where the cut is that it speaks of."""
        with self.lock:
            self._folder = folder or self._folder
            self._let_go(message)
            for decision in self.state.handle(message):
                self.carry_out(decision, None)

    def request(
        self, request: Request | StoreGroup, payload: Wanted | PushedGradients | StoredDense | None, done: Done
    ) -> None:
        """Take a client's request; ``done`` is called with the answer, now or later, from this or another thread."""
        if isinstance(payload, PushedGradients) and payload.since is not None and self.shard is not None:
            payload = replace(payload, rows=without_deleted(self.shard, payload.since, payload.rows))
        tag = (payload, done)
        if self._ordered:
            with self.lock:
                if not self._retired:  # else no answer: whoever asks is about to be ended
                    self._note_turn(request)
                    self._carry_out_all(self.state.handle(request, tag), payload)
            return
        with self.lock:
            while self._still:
                self._moved.wait()
            if self._retired:
                return
            decisions = self.state.handle(request, tag)
            self._busy += 1
        try:
            self._carry_out_all(decisions, payload)
        finally:
            with self.lock:
                self._busy -= 1
                self._moved.notify_all()

    def _note_turn(self, request: Request | StoreGroup) -> None:
        """A lane has done something: but for rows that others keep it waiting for, it is its turn again."""
        if isinstance(request, StoreGroup):
            return
        self.turns.ends(request.lane, request.batches if isinstance(request, Push) else 0)
        if not isinstance(request, Pull):
            self.turns.begins(request.lane)

    def _carry_out_all(self, decisions: Sequence[Decision], payload: Any) -> None:
        """Carry out what one request led to; its gradients are for those decisions only that change something."""
        is_new = any(isinstance(decision, Apply | Keep | Take) for decision in decisions)
        for decision in decisions:
            self.carry_out(decision, payload if is_new else None)
        if isinstance(payload, Wanted) and not decisions:  # it waits for others
            read_ahead(self.shard, payload)

    def retire(self) -> None:
        """Finish what is being carried out and begin nothing more: nobody's late push changes the tables after this."""
        with self._standing_still():
            self._retired = True

    def read(self, wanted: Wanted) -> Pulled:
        """Read without training: evaluation, prediction."""
        return self._pull(wanted)

    @property
    def methods(self) -> Mapping[str, Method]:
        """What other processes may call."""
        own: Mapping[str, Method] = {"request": self._on_request, "read": self._on_read, "dense": self._on_dense}
        return {**own, "lent": self._on_lent, "group": self._on_group, **self._following.methods(self)}

    def _on_request(self, message: Message) -> Message:
        request, payload = unpack_request(message)
        waiter = Waiter(bool(message.head.get("half")), message.room)
        self.request(request, payload, waiter)
        # Other answers wait for nobody but a backup; gradients would cost more to send again than to wait for it.
        return waiter.wait(_PATIENCE_S if isinstance(request, Pull) else self._patience_s)

    def _on_read(self, message: Message) -> Message:
        return pack_reply(Granted(self.state.term), self.read(unpack_read(message)))

    def dense(self, known: str | None = None) -> tuple[str, F32 | None]:
        """Return the dense parameters and a mark of their state; none if that is the mark the caller knows.

        They are where the stage holder has them, on its device perhaps; on the wire they are host arrays.
        """
        shard = self.tables()
        mark = f"{shard.incarnation}-{shard.version}"  # before the values: newer ones under an old mark do no harm
        if mark == known:
            return mark, None
        with self.phases("pull"):
            return mark, shard.dense.pull_there()

    def _on_dense(self, message: Message) -> Message:
        mark, values = self.dense(message.head["known"])
        return pack_dense(mark, None if values is None else to_host(values))

    def rows(self, seed: int, ids: Mapping[str, U64]) -> Mapping[str, Any]:
        """Stage holder: return the rows that were lent to a batch, by group, where they are.

        They are read anew where they are not kept any more: another attempt at the batch was faster.
        """
        assert self.holder is not None
        kept = self.holder.lent(seed)
        return {name: kept[name] if name in kept else self.tables().pull(name, ids[name]).values for name in ids}

    def _on_lent(self, message: Message) -> Message:
        found = self.rows(message.head["seed"], unpack_rows(message))
        return pack_rows({name: to_host(values) for name, values in found.items()})

    def keep(self, seed: int, stage: int, gradient: Any, rows: Mapping[str, LentGradient], mark: int) -> None:
        """Stage holder: take the gradients of a stage of this process (:meth:`StageHolder.keep`)."""
        self.tables()
        assert self.holder is not None
        self.holder.keep(seed, stage, gradient, rows, mark)

    @property
    def mark(self) -> int:
        """Stage holder: what gradients that are computed from now on are kept under."""
        assert self.holder is not None
        return self.holder.mark

    def _on_group(self, message: Message) -> Message:
        """Give a member of the all-reduce group what is kept for it."""
        with self.lock:
            if self.state.term != message.head["term"] or not self.state.serving:
                raise PeerLost(f"shard host {self.host} is not of term {message.head['term']}")
            return give_dense(self.tables(), self._reduced, self.state.lanes.frontier)

    # --- its backup

    def attach(self, attach: Attach, address: Address, tls: ssl.SSLContext | None = None) -> None:
        """Fill a backup beside training, then forward to it."""
        with self.lock:
            self._end_mirror()
            self._mirror = Mirror(self, self.tables(), attach, address, tls, self._report)
            self._mirror.start()

    def hand_over(self, mirror: Mirror) -> None:
        """Have a mirror take down what is left while nothing is applied, and forward from there on."""
        with self._standing_still():
            if mirror is self._mirror and self.state.serving:
                mirror.take_down()
                for decision in self.state.handle(mirror.attach):
                    self.carry_out(decision, None)

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        """Be a context in which what the state machine has let through is in the tables, and nothing else comes."""
        with self.lock:
            self._still = True
            try:
                while self._busy:
                    self._moved.wait()
                yield
            finally:
                self._still = False
                self._moved.notify_all()

    def confirmed(self, confirm: Confirm) -> None:
        """The backup has followed so far: answer what waited for that."""
        with self.lock:
            decisions = self.state.handle(confirm)
            if self._ordered:
                for decision in decisions:
                    self.carry_out(decision, None)
                return
        for decision in decisions:
            self.carry_out(decision, None)

    def _let_go(self, message: Any) -> None:
        """End the mirror of a backup that this copy is not to have any more."""
        ends = isinstance(message, Rewind | Discard)
        if isinstance(message, Detach) and self._mirror is not None:
            ends = message.backup == self._mirror.attach.backup
        if ends:
            self._end_mirror()

    def _end_mirror(self) -> None:
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None

    def _forward(self, forward: Forward, gradients: PushedGradients | StoredDense | None) -> None:
        if self._mirror is not None and self._mirror.attach.backup == forward.backup:
            self._mirror.forward(Forwarded(forward, None if gradients is None else gradients.copy()))

    def _fill(self, fill: Fill) -> None:
        """Take down the state that belongs to the rows as they are now."""
        shard = self.tables()
        with shard.dense.lock:
            dense, slots = shard.dense.values.copy(), shard.dense.slots.copy()
        assert self._mirror is not None
        self._mirror.fill(Filling(fill, shard.version, replace(self.counts), dense, slots, dict(self._kept)))

    def begin_as(self, filling: Filling) -> None:
        """Be what the primary was at a moment; its rows are here already."""
        self.tables().adopt(Window(), filling.version)
        self.counts = filling.counts
        self._kept = {push: gradients.copy() for push, gradients in filling.kept.items()}

    @property
    def parts(self) -> Mapping[int, HostPart]:
        """What this host wrote of the last cut that is on disk, by its number."""
        return self._writer.parts

    # --- decisions

    def carry_out(self, decision: Decision, payload: Any) -> None:
        """Do what the state machine has decided, with the gradients or ids that came with the request."""
        match decision:
            case Take():
                take_dense(self.tables(), self._reduced, payload)
            case Apply(push):
                self._apply(push.key, self._whole(payload), push.batches)
            case Answer((sent, done), reply):
                if self.holder is not None and isinstance(sent, PushedGradients) and isinstance(reply, Acked):
                    self.holder.forget(sent.kept)
                done(reply, self._news(sent, reply))
            case Serve((wanted, done), pull, reply):
                if self._ordered:
                    self.turns.begins(pull.lane)
                if not getattr(done, "gone", False):  # nobody waits for these rows any more
                    with wanted.landing as is_open:
                        pulled = self._pull(wanted) if is_open else None
                    done(reply, pulled)
            case Forward():
                self._forward(decision, payload)
            case Fill():
                self._fill(decision)
            case Dismiss(trainer):
                self._readers.dismiss(self.shard, trainer)
            case Keep(push):
                with self.phases("push"):
                    # Beyond the reply: the sender uses its buffers again.
                    self._kept[push] = self._whole(payload).copy()
            case Commit(_, pushes):
                self._commit([(push, self._kept.pop(push)) for push in pushes])
            case Load(term, cut, owned):
                self._load(term, cut, owned)
            case Mark(cut, state):
                self._mark(cut, state)
            case Report(event):
                self._report(event)
            case _:
                raise TypeError(f"this engine does not carry out {decision!r}")

    def _whole(self, payload: PushedGradients) -> PushedGradients:
        return payload if self.holder is None else self.holder.whole(payload)

    def tables(self) -> Shard:
        """Return the tables that are here."""
        if self.shard is None:  # it can be reached before it was told what to load: who asks tries again
            raise PeerLost(f"shard host {self.host} has no tables yet")
        return self.shard

    def _news(self, sent: Any, reply: Reply) -> Refreshed | None:
        """Return what a sender with rows of its own is told with the answer to its push."""
        if not isinstance(sent, PushedGradients) or not sent.reader or not isinstance(reply, Acked):
            return None
        with self.phases("pull"):
            return self._readers.refreshed(self.tables(), sent.reader, sent.since)

    def _pull(self, wanted: Wanted) -> Pulled:
        shard = self.tables()
        # First: what is read then is not older.
        news = None if wanted.since is None else self._readers.refreshed(shard, wanted.reader, wanted.since)
        moment = self._readers.begin(shard, wanted.reader) if wanted.reader and news is None else None
        values, rows, version = {}, {}, shard.version
        with self.phases("pull"):
            for name, ids in wanted.ids.items():
                pulled = shard.pull(name, ids, train=wanted.train, out=self._rows_out(wanted, name))
                values[name], rows[name] = pulled.values, pulled.rows
            if self.holder is not None:
                values, rows = self.holder.handed_out(wanted, values, rows)
            slots = {name: shard.pull_slots(name, wanted.ids[name][:n]) for name, n in wanted.slots.items()}
            dense = dense_slots = None
            if wanted.dense is not None:
                out = self._dense_out(wanted)
                if wanted.dense_slots:
                    dense, dense_slots = shard.pull_dense_slots(out)
                else:
                    dense = shard.pull_pushed(out) if wanted.train else shard.pull_dense(out)
        return Pulled(values, rows if wanted.hints else {}, version, dense, moment, slots, dense_slots, news=news)

    def _rows_out(self, wanted: Wanted, group: str) -> F32 | None:
        """Return where rows go; the stage holder keeps those that it lends."""
        given = wanted.out.get(group)
        if given is not None or self.holder is not None:
            return given
        return wanted.room.take(len(wanted.ids[group]), self._widths[group])

    def _dense_out(self, wanted: Wanted) -> F32 | None:
        """Return where dense parameters go."""
        assert wanted.dense is not None
        if wanted.dense.size or self.holder is not None:
            return wanted.dense if wanted.dense.size else None
        return wanted.room.take(self._pushed_size if wanted.train and not wanted.dense_slots else self._dense_size)

    def _apply(self, key: BatchKey, gradients: PushedGradients, batches: int = 1) -> None:
        with self.phases("push"):
            applied = self.tables().apply(key, gradients.rows, gradients.dense)
        self.phases.carve({"rule": applied.rule_s})
        with self.lock:
            before = self.counts.batches
            self.counts.add(gradients, applied.skipped, applied.staleness, batches)
            due = self._cut_every is not None and self.counts.batches // self._cut_every > before // self._cut_every
            diverged = 0 < self._bad_losses == self.counts.bad_streak
        if not self.state.serving:  # a backup counts along; its primary tells
            return
        if diverged:
            self._report(Diverged(self._bad_losses))
        if due:
            self._report(CutAsked())

    def counted(self) -> Counts:
        """Return what is in the tables, with what the device has counted of it."""
        skipped = self.shard.take_skipped() if self.shard is not None else 0
        with self.lock:
            self.counts.skipped += skipped
        return self.counts

    def _commit(self, lanes: list[tuple[Push, PushedGradients]]) -> None:
        """Sum in lane order, then one update: the same bits whoever computed the lanes."""
        if not lanes:
            return
        with self.phases("push"):
            total = sum_pushed([gradients for _, gradients in lanes])
        self._apply(lanes[0][0].key, total)

    def _load(self, term: int, cut: int, owned: tuple[int, ...]) -> None:
        """Load a cut; cut 0 is what the run began with: fresh tables, or those of the run before."""
        self._kept.clear()
        if self.holder is not None:
            self.holder.clear()
        state: Mapping[str, Any] | None = None
        if cut:
            self.fresh(owned)
            manifest = restore(self.tables(), self._folder)
            state, self.counts = host_state(manifest), Counts(**manifest.position["counts"])
            self._go_on_from(manifest.moment)
        elif self._anew:
            self.fresh(owned)
        self._anew = True  # who returns to the beginning later finds rows here that were trained since
        self.deliver(Loaded(term, None if state is None else dict(state)))

    def _go_on_from(self, moment: str) -> None:
        """Let the next cut hold only what changes from here on, if the tables are exactly what the cut holds."""
        shard = self.tables()
        if moment and not any(group.evicted for group in shard.groups.values()):  # a lowered budget takes rows away
            shard.remember(_CUTS, moment)

    def _mark(self, cut: int, state: dict[str, Any]) -> None:
        """From here on the first change of a row saves its old value; writing goes on beside training."""
        self._writer.rest()
        if self.holder is not None:
            self.holder.clear()
        folder, counts = self._folder, vars(self.counted()).copy()
        rows = self.tables().cut(_CUTS, moment=Path(folder).name, since=since_of(folder))
        self._writer.write(rows, folder, self.state.copy, cut, state, counts)
