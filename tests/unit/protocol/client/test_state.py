"""A client whose worker has rows of its own: batches in order, exchanges beside the computing, a few pulled ahead."""

from typing import Any

import pytest

from heterps.protocol import (
    Async,
    BatchKey,
    Cached,
    ClientState,
    Geo,
    LaneWaits,
    Layout,
    Mixed,
    MixedSync,
    Mode,
    SplitPaused,
    Sync,
)
from heterps.protocol.client import state as cl
from heterps.protocol.words import instructions as do
from heterps.protocol.words.messages import Acked, Advance, Granted, Pull, Push, Seen

HOSTS = 2
LAYOUT = Layout(1, tuple(range(HOSTS)), (1,) * HOSTS, tuple(range(HOSTS)))


class Played:
    """A client with everything it wants done, in order; hosts answer when they are told to."""

    def __init__(
        self,
        k: int,
        mode: Mode | None = None,
        low: int = 0,
        step: int = 0,
        until: int | None = None,
        top: int | None = None,
    ) -> None:
        run = do.RunSplit(1, 1, "w", 0, 0, 0, 7, step, until, 0, (0, 0), LAYOUT)
        self.client = ClientState(run, mode or Geo(k))
        self.done: list[Any] = []
        self.act(self.client.start())
        for host in range(HOSTS):
            self.act(
                self.client.reply(host, self.sent(cl.Send, 0)[host].request, Seen(1, low, low if top is None else top))
            )

    def act(self, actions: list[Any]) -> None:
        for action in actions:
            self.done.append(action)
            if isinstance(action, cl.Read):
                self.act(self.client.handle(cl.BatchRead(action.n)))

    def sent(self, kind: type, n: int) -> list[cl.Send]:
        found = [a for a in self.done if isinstance(a, cl.Send) and a.request.key.n == n]
        return found if kind is cl.Send else [a for a in found if isinstance(a.request, kind)]

    def answer(self, kind: type, n: int) -> None:
        for host, request in self.sent(kind, n):
            self.act(self.client.reply(host, request, Granted(1) if kind is Pull else Acked(1)))

    def computed(self, n: int) -> None:
        self.act(self.client.handle(cl.Computed(BatchKey(0, 0, n), "")))

    @property
    def computing(self) -> list[int]:
        return [a.key.n for a in self.done if isinstance(a, cl.Compute)]


@pytest.mark.parametrize("at_once", [False, True])
def test_where_answers_come_at_once_no_batch_is_pulled_before_the_one_before_it_is_pushed(at_once: bool) -> None:
    played = Played(k=0, mode=Async(2))
    played.client.at_once = at_once
    for n in range(3):  # what was begun before that was known
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    played.answer(Pull, 3)
    assert bool(played.sent(Pull, 4)) is not at_once
    played.computed(3)
    assert not played.sent(Push, 4)
    played.answer(Push, 3)
    assert played.sent(Pull, 4)
    assert bool(played.sent(Pull, 5)) is not at_once


def test_batches_are_computed_in_order_however_their_rows_come() -> None:
    played = Played(k=2)
    played.answer(Pull, 1)
    assert played.computing == []
    played.answer(Pull, 0)
    assert played.computing == [0], "one at a time: the next is trained on what this one leaves"
    played.computed(0)
    assert played.computing == [0, 1]


def test_a_range_is_exchanged_while_the_next_is_computed_and_none_further() -> None:
    played = Played(k=2)
    for n in range(4):
        played.answer(Pull, n)
        played.computed(n)
        if n == 1:
            pushes = [i for i, a in enumerate(played.done) if isinstance(a, cl.Send) and isinstance(a.request, Push)]
            assert len(pushes) == HOSTS
            played.answer(Pull, 2)
            assert played.done.index(cl.Compute(BatchKey(0, 0, 2), "")) > max(pushes), "settled before it goes on"
    assert played.computing == [0, 1, 2, 3], "nothing was acknowledged yet"
    assert not played.sent(Pull, 4), "two ranges are under way"
    played.answer(Push, 0)
    assert played.sent(Pull, 4)
    played.answer(Pull, 4)
    assert played.computing == [0, 1, 2, 3, 4]


def test_rows_are_asked_for_a_few_batches_ahead() -> None:
    played = Played(k=100)
    assert [n for n in range(10) if played.sent(Pull, n)] == [0, 1, 2, 3]
    played.answer(Pull, 0)
    played.computed(0)
    assert [n for n in range(10) if played.sent(Pull, n)] == [0, 1, 2, 3, 4]


def test_the_last_range_of_a_split_may_be_short() -> None:
    played = Played(k=3)
    played.answer(Pull, 0)
    played.computed(0)
    reading = [a for a in played.done if isinstance(a, cl.Read)][-1].n
    for n in range(1, reading + 1):
        played.answer(Pull, n)
    played.client._reading = True  # the reader finds the end instead of the next batch
    played.act(played.client.handle(cl.SplitEnded(2)))
    played.computed(1)
    (push, _) = played.sent(Push, 0)
    assert push.request.batches == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", [Geo(1), Cached(1), Cached(2)])
def test_a_later_unit_that_is_settled_first_lets_none_begin_further_ahead(mode: Mode) -> None:
    played = Played(1, mode)
    for n in range(2):
        played.answer(Pull, n)
        played.computed(n)
    played.answer(Push, 1)
    assert not played.sent(Pull, 2), "it would lack batch 0, two before it"
    played.answer(Push, 0)
    assert played.sent(Pull, 2)


def test_several_may_be_computed_at_once_where_hosts_change_the_rows_but_begin_in_order() -> None:
    played = Played(0, Cached(3))
    for n in (1, 2):
        played.answer(Pull, n)
    assert played.computing == [], "the first has asked for rows of the others"
    played.answer(Pull, 0)
    assert played.computing == [0, 1, 2]
    played.computed(1)
    assert not played.sent(Push, 0)
    played.computed(0)
    assert len(played.sent(Push, 0)) == HOSTS


def test_without_staleness_a_batch_waits_for_the_one_before_it() -> None:
    played = Played(0, Cached(0))
    played.answer(Pull, 0)
    played.computed(0)
    assert not played.sent(Pull, 1)
    played.answer(Push, 0)
    assert played.sent(Pull, 1)


@pytest.mark.parametrize(("low", "begins"), [(0, 0), (5, 3), (6, 6)])
def test_an_attempt_begins_where_a_range_does(low: int, begins: int) -> None:
    played = Played(0, Mixed(3), low=low)
    assert next(a.n for a in played.done if isinstance(a, cl.Read)) == begins
    for n in range(begins, begins + 4):
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    settled = [played.sent(Push, n)[0].request.settles for n in range(begins, begins + 3)]
    assert settled == [0, 0, 3], "with the last batch of the range"


def test_a_batch_is_pushed_when_it_is_known_whether_its_range_has_ended() -> None:
    played = Played(0, Mixed(3))
    for n in range(3):
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    client, done = played.client, len(played.done)
    played.act = played.done.extend  # type: ignore[method-assign]  # from here on nothing is read
    assert client.next == 5
    played.answer(Pull, 3)
    played.computed(3)
    assert played.sent(Push, 3)[0].request.settles == 0, "the next one was read"
    played.answer(Push, 3)
    played.answer(Pull, 4)
    played.computed(4)
    assert not played.sent(Push, 4), "it may be the last one"
    played.act(client.handle(cl.SplitEnded(5)))
    assert played.sent(Push, 4)[0].request.settles == 2
    assert len(played.done) > done


def test_a_range_that_has_begun_is_completed_before_the_attempt_stops() -> None:
    played = Played(0, Mixed(3))
    played.act(played.client.handle(do.Pause(1, 0, 1)))
    for n in range(3):
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    assert not played.sent(Pull, 3)
    assert [a.event.upto for a in played.done if isinstance(a, cl.Tell)][-1] == 3


@pytest.mark.parametrize(
    ("low", "begins", "settled"), [(7, 0, [2, 3]), (8, 0, [2, 3]), (9, 2, [3, 3]), (11, 2, [3, 3])]
)
def test_in_steps_ranges_end_where_those_of_other_lanes_do(low: int, begins: int, settled: list[int]) -> None:
    played = Played(0, MixedSync(3), low=low, step=7)  # the Split's first batch is the second of a range of steps
    assert next(a.n for a in played.done if isinstance(a, cl.Read)) == begins
    found = []
    for n in range(begins, begins + 7):
        played.answer(Pull, n)
        played.computed(n)
        assert not played.sent(Pull, n + 1), "one step after another"
        found.append(played.sent(Push, n)[0].request.settles)  # type: ignore[union-attr]
        played.answer(Push, n)
    assert [settles for settles in found if settles][:2] == settled
    ends = [n for n, settles in enumerate(found, begins) if settles]
    assert ends == [n for n in range(begins, begins + 7) if (7 + n + 1) % 3 == 0]


def test_a_lane_that_cannot_stop_says_where_it_will_stand() -> None:
    played = Played(0, MixedSync(3))
    played.answer(Pull, 0)
    played.computed(0)
    played.answer(Push, 0)
    played.act(played.client.handle(do.Pause(1, 0, 1)))
    assert cl.Forget(BatchKey(0, 0, 1)) not in played.done, "a pull in the middle of a range is not taken back"
    assert [a.event for a in played.done if isinstance(a, cl.Tell)][-1] == LaneWaits(1, 3, 1)
    for n in (1, 2):
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    played.answer(Advance, 3)
    assert [a.event for a in played.done if isinstance(a, cl.Tell)][-1] == SplitPaused(1, 3, 1)
    assert not played.sent(Pull, 3)


def test_the_last_batch_of_a_range_waits_for_others_too() -> None:
    played = Played(0, MixedSync(3))
    for n in range(2):
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    assert played.client.next == 3
    played.act(played.client.handle(do.Pause(1, 0, 1)))
    assert [a.event for a in played.done if isinstance(a, cl.Tell)][-1] == LaneWaits(1, 3, 1)


@pytest.mark.parametrize("told", ["before", "after"])
def test_a_range_of_which_another_attempt_has_pushed_a_batch_has_begun(told: str) -> None:
    """Hosts have it, though they have not applied it: a cut before the range's end would be without it."""
    played = Played(0, MixedSync(3), low=1, top=0, until=0 if told == "before" else None)
    if told == "after":
        played.act(played.client.handle(do.Pause(1, 0, 1)))
    assert not played.sent(Advance, 0)
    for n in range(3):
        played.answer(Pull, n)
        played.computed(n)
        played.answer(Push, n)
    played.answer(Advance, 3)
    last = [a.event for a in played.done if isinstance(a, cl.Tell)][-1]
    assert last == SplitPaused(1, 3, 0 if told == "before" else 1)


def test_a_pull_before_a_range_is_taken_back() -> None:
    played = Played(0, MixedSync(3))
    played.act(played.client.handle(do.Pause(1, 0, 1)))
    assert cl.Forget(BatchKey(0, 0, 0)) in played.done
    played.answer(Advance, 0)
    assert [a.event for a in played.done if isinstance(a, cl.Tell)] == [SplitPaused(1, 0, 1)]


def test_a_lane_computes_on_its_home_where_stage_workers_all_reduce() -> None:
    """Whoever is free: its home alone has granted the step, and has the gradient when it is pushed."""
    layout = Layout(1, (0,), (1,), (0,), ("u", "v", "w"), group=5)
    assert [layout.home(lane) for lane in range(4)] == ["u", "v", "w", "u"]
    client = ClientState(do.RunSplit(1, 1, "x", 0, 0, 0, 4, 0, None, 0, (0, 0), layout), Sync())
    client.credits.take(("v",))  # it has something to do already
    for host, request in client.start():
        out = client.reply(host, request, Seen(layout.holders[host], 0, 0))
    assert out == [cl.Read(0)]
    for host, request in client.handle(cl.BatchRead(0)):
        out = client.reply(host, request, Granted(layout.holders[host]))
    assert out == [cl.Compute(BatchKey(0, 0, 0), "v")]
    assert client.handle(cl.StepFailed(BatchKey(0, 0, 0), "v")) == out, "and nowhere else"
