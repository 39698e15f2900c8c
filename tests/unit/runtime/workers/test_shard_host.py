"""A shard host: what its tables hold after pushes that come twice, in another order, or before a cut."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterps.errors import ClusterError
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Acked, Pull, Push, Refused
from heterps.protocol.words.modes import Async, Mode, Sync
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import PushedGradients, Wanted
from heterps.runtime.workers import cut_writer
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import RowGradients
from heterps.testing.small_model import graph

IDS = np.arange(20, dtype=np.uint64)


class Host:
    """One host with all shards, serving under term 1, and what it reported."""

    def __init__(self, mode: Mode, lanes: int = 1, **options: Any) -> None:
        self.job = Job(Model(graph()), 64, mode, lanes=lanes)
        self.events: list[ev.Event] = []
        self.reported = threading.Condition()
        self.it = ShardHost(self.job, 0, 1, self._report, **options)
        self.it.deliver(do.CreateHost(1, 0, "server-0", 1, 0, self.job.owned(0)))
        (self.group,) = (group.name for group in self.job.model.lowered.groups)

    def _report(self, event: ev.Event) -> None:
        with self.reported:
            self.events.append(event)
            self.reported.notify_all()

    def wait_for(self, kind: type) -> Any:
        with self.reported:
            assert self.reported.wait_for(lambda: any(isinstance(e, kind) for e in self.events), timeout=60)
        return next(event for event in self.events if isinstance(event, kind))

    def values(self) -> np.ndarray:
        return self.it.read(Wanted({self.group: IDS}, train=False)).values[self.group].copy()

    def push(self, n: int, gradients: PushedGradients, *, attempt: int = 1, term: int = 1, lane: int = 0) -> list[Any]:
        answers: list[Any] = []
        key = BatchKey(0, lane, n)
        self.it.request(Push(term, attempt, key, lane, n, 1), gradients, lambda reply, rows: answers.append(reply))
        return answers

    def gradients(self, size: float) -> PushedGradients:
        width = self.it.read(Wanted({self.group: IDS[:1]}, train=False)).values[self.group].shape[1]
        rows = RowGradients(IDS, np.full((len(IDS), width), size, np.float32))
        return PushedGradients({self.group: rows}, None, samples=len(IDS), loss=1.0)


def test_it_serves_once_its_tables_are_there() -> None:
    host = Host(Async())
    assert host.events == [ev.HostReady(1, 1)]
    assert not host.values().any()  # nobody trained on these ids


def test_a_push_that_comes_again_is_acknowledged_and_changes_nothing() -> None:
    host = Host(Async())
    gradients = host.gradients(0.5)
    assert host.push(0, gradients) == [Acked(1)]
    once = host.values()
    assert once.any()
    assert host.push(0, gradients, attempt=2) == [Acked(1)]
    assert np.array_equal(host.values(), once)
    assert (host.it.counts.batches, host.it.counts.samples) == (1, len(IDS))


def test_a_push_of_another_term_is_refused_and_changes_nothing() -> None:
    host = Host(Async())
    gradients, before = host.gradients(0.5), host.values()
    (answer,) = host.push(0, gradients, term=7)
    assert isinstance(answer, Refused)
    assert np.array_equal(host.values(), before)


@pytest.mark.parametrize("mode", [Async(), Sync()], ids=["async", "sync"])
def test_a_push_that_comes_after_the_end_of_the_run_changes_nothing(mode: Mode) -> None:
    host = Host(mode)
    gradients, before = host.gradients(0.5), host.values()
    host.it.retire()
    assert host.push(0, gradients) == []
    assert np.array_equal(host.values(), before)
    assert host.it.counts.batches == 0


def test_a_host_retires_behind_the_push_that_it_is_applying(monkeypatch: pytest.MonkeyPatch) -> None:
    host, applying, go = Host(Async()), threading.Event(), threading.Event()
    gradients, good = host.gradients(0.5), host.it._apply

    def slow(*given: Any) -> None:
        applying.set()
        assert go.wait(30)
        good(*given)

    monkeypatch.setattr(host.it, "_apply", slow)
    answers: list[Any] = []
    pushing = threading.Thread(target=lambda: answers.extend(host.push(0, gradients)))
    pushing.start()
    assert applying.wait(30)
    retiring = threading.Thread(target=host.it.retire)
    retiring.start()
    retiring.join(0.05)
    assert retiring.is_alive()
    go.set()
    retiring.join(30)
    assert not retiring.is_alive()
    assert host.it.counts.batches == 1
    pushing.join(30)
    assert answers == [Acked(1)]


def test_in_sync_lanes_are_summed_in_their_order_whoever_comes_first() -> None:
    results = []
    for order, reused in (((0, 1), False), ((0, 1), True), ((1, 0), True)):
        host = Host(Sync(), lanes=2)
        for lane in order:
            sent = host.gradients(0.1 + lane)
            assert host.push(0, sent, lane=lane) == [Acked(1)]
            if reused:  # the sender fills its buffers with the next batch
                sent.rows[host.group].values[:] = 99
        pulled: list[Any] = []
        for lane in order:
            assert not host.values().any()  # nothing changes before all lanes ask for the next step
            request = Pull(1, 1, BatchKey(0, lane, 1), lane, 1)
            host.it.request(request, Wanted({host.group: IDS}), lambda reply, rows, to=pulled: to.append(rows))
        assert len(pulled) == 2
        results.append(host.values())
        assert np.array_equal(pulled[0].values[host.group], results[-1])
    assert results[0].any()
    assert all(np.array_equal(results[0].view(np.uint32), other.view(np.uint32)) for other in results[1:])


def test_a_cut_is_asked_for_where_batches_are_counted() -> None:
    host = Host(Async(), cut_every=2)
    for n in range(4):
        host.push(n, host.gradients(0.1))
    assert [event for event in host.events if isinstance(event, ev.CutAsked)] == [ev.CutAsked()] * 2


def test_a_cut_that_cannot_be_written_is_an_event(tmp_path: Path) -> None:
    host = Host(Async())
    host.push(0, host.gradients(0.5))
    (tmp_path / "file").write_text("in the way")
    host.it.deliver(do.MarkCut(1, 1, 1, (0, 0)), str(tmp_path / "file" / "cut"))
    failed = host.wait_for(ev.CutFailed)
    assert failed.cut == 1


def test_a_cut_that_was_given_up_is_written_to_its_end_before_the_next_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, begun, go = Host(Async()), threading.Event(), threading.Event()
    host.push(0, host.gradients(0.5))
    write = cut_writer.write_part
    for name in ("1", "2"):
        (tmp_path / name).mkdir()

    def slow(*args: Any, **options: Any) -> Any:
        begun.set()
        assert go.wait(60)
        return write(*args, **options)

    monkeypatch.setattr(cut_writer, "write_part", slow)
    host.it.deliver(do.MarkCut(1, 1, 1, (0, 0)), str(tmp_path / "1"))
    assert begun.wait(60)
    second = threading.Thread(target=host.it.deliver, args=(do.MarkCut(1, 1, 2, (0, 0)), str(tmp_path / "2")))
    second.start()
    go.set()
    second.join(60)
    with host.reported:
        done = host.reported.wait_for(lambda: ev.CutWritten(1, 2) in host.events, timeout=60)
    assert done, host.events
    assert ev.CutWritten(1, 1) in host.events


def test_dense_parameters_are_sent_only_where_they_changed() -> None:
    host = Host(Async())
    mark, values = host.it.dense()
    assert values is not None
    assert host.it.dense(mark) == (mark, None)
    gradients = host.gradients(0.5)
    host.push(0, PushedGradients(gradients.rows, np.ones_like(values), len(IDS), 1.0))
    newer, changed = host.it.dense(mark)
    assert newer != mark
    assert changed is not None
    assert not np.array_equal(changed, values)


def test_closed_tables_are_not_read() -> None:
    host = Host(Async())
    host.it.close()
    with pytest.raises(ClusterError, match="has no tables yet"):
        host.values()


def test_a_run_that_was_left_before_it_had_tables_leaves_none_to_the_next() -> None:
    host = Host(Async())
    before, after = (ShardHost(host.job, 0, copy, lambda event: None) for copy in (1, 2))
    after.take_over(before)
    after.deliver(do.CreateHost(2, 0, "worker", 1, 0, tuple(range(1024))))
    _, values = after.dense()
    assert values is not None


def test_a_return_to_the_beginning_finds_tables_without_what_was_trained() -> None:
    """Also where the tables are older than the run, as after an evaluation before it."""
    before = Host(Async())
    host = Host(Async())
    host.it = ShardHost(host.job, 0, 2, lambda event: None)
    host.it.take_over(before.it)
    host.it.deliver(do.CreateHost(2, 0, "worker", 1, 0, host.job.owned(0)))
    host.push(0, host.gradients(0.5))
    assert host.values().any()
    host.it.deliver(do.Rewind(2, 2, 0, host.job.owned(0)))
    assert not host.values().any()
