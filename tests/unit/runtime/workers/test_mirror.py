"""A shard host and its backup, both real, each behind a socket: what one has the other has, and answers wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from heterps.errors import TableFullError
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Acked, Granted, Pull, Push, Refused
from heterps.protocol.words.modes import Async, Mode, Sync
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import PushedGradients, Wanted
from heterps.runtime.wire import peer
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.service import Listener
from heterps.runtime.workers import mirror
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import SGD, RowGradients
from heterps.testing.small_model import graph

LONG_S = 60
IDS = np.arange(50, dtype=np.uint64)


class Pair:
    """Copy 1, which answers, and copies that it is given as backups."""

    def __init__(self, mode: Mode, lanes: int = 1) -> None:
        self.job = Job(Model(graph(), sparse=SGD(lr=1.0)), 64, mode, lanes=lanes, replicas=2)
        (self.group,) = (group.name for group in self.job.model.lowered.groups)
        self.events: list[ev.Event] = []
        self.moved = threading.Condition()
        self.listeners: list[Listener] = []
        self.primary = ShardHost(self.job, 0, 1, self._report)
        self.primary.deliver(do.CreateHost(1, 0, "a", 1, 0, self.job.owned(0)))
        self.width = self.primary.read(Wanted({self.group: IDS[:1]}, train=False)).values[self.group].shape[1]

    def _report(self, event: ev.Event) -> None:
        with self.moved:
            self.events.append(event)
            self.moved.notify_all()

    def wait_for(self, *wanted: ev.Event) -> None:
        with self.moved:
            assert self.moved.wait_for(lambda: all(w in self.events for w in wanted), LONG_S), self.events

    def give_backup(self, copy: int = 2) -> ShardHost:
        backup = ShardHost(self.job, 0, copy, self._report)
        backup.fresh(self.job.owned(0))
        backup.deliver(do.CreateHost(copy, 0, "b", 1, None, self.job.owned(0)))
        self.listeners.append(Listener(backup))
        self.primary.attach(do.Attach(1, copy), self.listeners[-1].address)
        return backup

    def gradients(self, n: int, ids: np.ndarray = IDS) -> PushedGradients:
        values = np.random.default_rng(n).integers(-9, 9, (len(ids), self.width)).astype(np.float32)
        dense = np.full(len(self.primary.tables().dense), 0.01 * n, np.float32)
        return PushedGradients({self.group: RowGradients(ids, values)}, dense, samples=len(ids), loss=1.0)

    def push(self, n: int, lane: int = 0, term: int = 1, host: ShardHost | None = None) -> Answer:
        answer = Answer()
        sent = self.gradients(n)
        request = Push(term, 1, BatchKey(0, lane, n), lane, n, 1)
        (host or self.primary).request(request, sent, answer)
        return answer

    def pull(self, n: int, lane: int = 0, term: int = 1) -> Answer:
        answer = Answer()
        wanted = Wanted({self.group: IDS})
        self.primary.request(Pull(term, 1, BatchKey(0, lane, n), lane, n), wanted, answer)
        return answer

    def close(self) -> None:
        self.primary.close()
        for listener in self.listeners:
            listener.close()


class Answer:
    """What a caller is told, sooner or later."""

    def __init__(self) -> None:
        self.reply: Any = None
        self.told = threading.Event()

    def __call__(self, reply: Any, rows: Any) -> None:
        self.reply = reply
        self.told.set()

    def wait(self) -> Any:
        assert self.told.wait(LONG_S), "never answered"
        return self.reply


def held(pair: Pair, host: ShardHost) -> list[bytes]:
    """Return all that a copy holds: rows by id, dense parameters, slots, what was applied."""
    shard = host.tables()
    rows = shard.groups[pair.group].changed("test").rows
    shard.groups[pair.group].readers.forget("test")
    order = np.argsort(rows["id"])
    tables = [np.ascontiguousarray(array[order]).tobytes() for array in rows.values()]
    counted = repr((shard.version, host.counts, host.state.window.to_json(), host.state.lanes.to_json())).encode()
    return [*tables, shard.dense.values.tobytes(), shard.dense.slots.tobytes(), counted]


@pytest.fixture
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(peer, "local_service", lambda address: None)  # through sockets, as between processes
    made = Pair(*getattr(request, "param", (Async(),)))
    yield made
    made.close()


def in_sync(pair: Pair, step: int) -> None:
    """Play one step of both lanes; the rows of the next are granted once it is committed."""
    assert all(isinstance(pair.push(step, lane).wait(), Acked) for lane in (0, 1))
    assert [type(answer.wait()) for answer in [pair.pull(step + 1, lane) for lane in (0, 1)]] == [Granted, Granted]


def test_a_backup_is_filled_and_follows(pair: Pair) -> None:
    for n in range(3):
        assert pair.push(n).wait() == Acked(1)
    backup = pair.give_backup()
    pair.wait_for(ev.BackupReady(1, 2))
    assert held(pair, backup) == held(pair, pair.primary)
    for n in range(3, 6):
        assert pair.push(n).wait() == Acked(1)
        assert held(pair, backup) == held(pair, pair.primary), "an answer means that the backup has it"
    assert pair.push(4).wait() == Acked(1), "a duplicate is answered"
    assert held(pair, backup) == held(pair, pair.primary)
    assert backup.counts.batches == 6


@pytest.mark.parametrize("pair", [(Sync(), 2)], indirect=True)
def test_in_sync_the_backup_has_the_same_bits_and_what_waits_for_its_step(pair: Pair) -> None:
    in_sync(pair, 0)
    assert pair.push(1, lane=1).wait() == Acked(1)  # is kept until lane 0 has pushed
    backup = pair.give_backup()
    pair.wait_for(ev.BackupReady(1, 2))
    assert pair.push(1, lane=0).wait() == Acked(1)
    for step in range(2, 5):
        assert [type(answer.wait()) for answer in [pair.pull(step, lane) for lane in (0, 1)]] == [Granted, Granted]
        assert all(isinstance(pair.push(step, lane).wait(), Acked) for lane in (0, 1))
    assert held(pair, backup) == held(pair, pair.primary)


def test_a_backup_is_filled_while_pushes_go_on(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "PIECE_ROWS", 8)
    ended = threading.Event()
    pushed = [0, 0]

    def go_on(lane: int) -> None:
        while not ended.is_set():
            assert pair.push(pushed[lane], lane).wait() == Acked(1)
            pushed[lane] += 1

    threads = [threading.Thread(target=go_on, args=(lane,)) for lane in (0, 1)]
    for thread in threads:
        thread.start()
    try:
        backups = []
        for copy in (2, 3, 4):  # each takes the place of the one before
            backups.append(pair.give_backup(copy))
            pair.wait_for(ev.BackupReady(1, copy))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert backups[-1].counts.batches == sum(pushed) == pair.primary.counts.batches
    assert backups[-1].state.window == pair.primary.state.window
    wanted = Wanted({pair.group: IDS}, train=False)
    ours, theirs = (host.read(wanted).values[pair.group] for host in (pair.primary, backups[-1]))
    assert np.allclose(ours, theirs, atol=0.01), "another order is rounding, a push more is a whole number"


def test_a_push_that_was_let_through_is_in_the_tables_before_they_are_taken_down(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pair.push(0).wait() == Acked(1)
    begun, go_on = threading.Event(), threading.Event()
    host, apply, fill, wait = pair.primary, pair.primary._apply, pair.primary._fill, pair.primary._moved.wait

    def late(*args: Any) -> None:
        begun.set()
        assert go_on.wait(LONG_S)
        apply(*args)

    def taken(filling: Any) -> None:
        fill(filling)
        go_on.set()

    def waiting() -> bool:
        go_on.set()
        return wait()

    monkeypatch.setattr(host, "_apply", late)
    monkeypatch.setattr(host, "_fill", taken)
    monkeypatch.setattr(host._moved, "wait", waiting)
    pushing = threading.Thread(target=pair.push, args=(1,))
    pushing.start()
    assert begun.wait(LONG_S)  # the window has its key, the rows do not
    backup = pair.give_backup()
    pushing.join()
    pair.wait_for(ev.BackupReady(1, 2))
    assert held(pair, backup) == held(pair, pair.primary)


def test_a_promoted_backup_goes_on_and_its_old_primary_answers_nobody(pair: Pair) -> None:
    backup = pair.give_backup()
    pair.wait_for(ev.BackupReady(1, 2))
    assert pair.push(0).wait() == Acked(1)
    backup.deliver(do.Promote(2, 9, pair.job.owned(0)))
    pair.wait_for(ev.HostReady(2, 9))
    late = pair.push(1)  # reaches the old primary, which does not know yet
    assert pair.push(0, term=9, host=backup).wait() == Acked(9), "it was applied before"
    assert pair.push(1, term=9, host=backup).wait() == Acked(9)
    assert backup.counts.batches == 2
    with pair.primary.lock:
        assert not late.told.is_set()
    until_deposed(pair)
    assert pair.push(2).wait() == Refused(1)


def until_deposed(pair: Pair) -> None:
    for _ in range(LONG_S * 100):
        with pair.primary.lock:
            if not pair.primary.state.serving:
                return
        threading.Event().wait(0.01)
    raise AssertionError("the old primary never heard of it")


def test_a_backup_that_is_gone_is_told_and_answers_go_out_when_it_is_detached(pair: Pair) -> None:
    pair.give_backup()
    pair.wait_for(ev.BackupReady(1, 2))
    pair.listeners[0].close()
    answer = pair.push(0)
    pair.wait_for(ev.CopyLost(2))
    assert not answer.told.is_set()
    pair.primary.deliver(do.Detach(1, 2))
    assert answer.wait() == Acked(1)
    assert pair.push(1).wait() == Acked(1)


def test_a_backup_that_cannot_take_the_rows_ends_the_run_with_the_reason(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> Any:
        raise TableFullError("no memory for 50 new ids")

    monkeypatch.setattr("heterps.runtime.workers.following.take_rows", full)
    pair.give_backup()
    with pair.moved:
        assert pair.moved.wait_for(lambda: any(isinstance(e, ev.AbortAsked) for e in pair.events), LONG_S)
    (aborted,) = (event for event in pair.events if isinstance(event, ev.AbortAsked))
    assert "backup" in aborted.reason
    assert "TableFullError: no memory for 50 new ids" in aborted.reason


def test_copying_keeps_within_its_bytes_a_second(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sent: list[int] = []
    for n in range(3):
        pair.push(n).wait()
    monkeypatch.setattr(mirror, "PIECE_ROWS", 10)
    monkeypatch.setattr(mirror, "monotonic", lambda: 0.0)  # no time passes: all of it is waited for
    backup = ShardHost(pair.job, 0, 2, pair._report)
    pair.listeners.append(Listener(backup))
    made = mirror.Mirror(
        pair.primary, pair.primary.tables(), do.Attach(1, 2), pair.listeners[-1].address, None, pair._report
    )
    monkeypatch.setattr(made, "_rate", 1000)
    monkeypatch.setattr(made._closed, "wait", lambda seconds: bool(waits.append(seconds)))

    def call(method: str, message: Message) -> Message:
        sent.append(sum(array.nbytes for array in message.arrays))
        return message

    monkeypatch.setattr(made, "_call", call)
    made._copy()
    made.close()
    assert len(sent) == 5, "fifty rows, ten at a time"
    assert waits == pytest.approx([sum(sent[:n]) / 1000 for n in range(5)])
