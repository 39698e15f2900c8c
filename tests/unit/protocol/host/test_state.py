"""HostState and ClientState by hand: the rules that are easier to see one by one."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from heterps.errors import ProtocolError
from heterps.protocol import Async, BatchKey, ClientState, Credits, Geo, HostState, Layout, Mode, Sync
from heterps.protocol.client import state as cl
from heterps.protocol.words import decisions as de, events as ev, instructions as do
from heterps.protocol.words.messages import Acked, Ask, Granted, Pull, Push, Refused, Seen, StoreGroup


def key(n: int, split: int = 0) -> BatchKey:
    return BatchKey(0, split, n)


def host(mode: Mode, copy: int = 1, lanes: int = 1) -> HostState:
    """Return a primary that serves under term 1."""
    state = HostState(copy, mode, lanes)
    assert state.handle(do.CreateHost(copy, 0, "s", 1, 0, (0,))) == [de.Load(1, 0, (0,))]
    assert state.handle(de.Loaded(1, None)) == [de.Report(ev.HostReady(copy, 1))]
    return state


def push(n: int, *, term: int = 1, attempt: int = 1, lane: int = 0, batches: int = 1) -> Push:
    return Push(term, attempt, key(n), lane, n, batches)


def kinds(decisions: list[Any]) -> list[type]:
    return [type(decision) for decision in decisions]


def test_a_push_is_applied_once_and_acknowledged_always() -> None:
    state = host(Async())
    assert kinds(state.handle(push(3), "a")) == [de.Apply, de.Answer]
    assert state.handle(push(3, attempt=2), "b") == [de.Answer("b", Acked(1))]


def test_another_term_is_refused() -> None:
    state = host(Async())
    assert state.handle(push(0, term=2), "t") == [de.Answer("t", Refused(1))]
    state.handle(do.Rewind(1, 5, 0, (0,)))
    assert state.handle(push(0, term=5), "t") == [de.Answer("t", Refused(5))], "not before the rows are there"
    state.handle(de.Loaded(5, None))
    assert kinds(state.handle(push(0, term=5), "t")) == [de.Apply, de.Answer]
    assert state.handle(de.Loaded(1, None)) == []


def test_parameters_of_a_group_that_come_late_are_refused() -> None:
    """Sent again, they may arrive after newer ones; the newest may come twice."""
    state = host(Sync())
    assert kinds(state.handle(StoreGroup(1, 2), "a")) == [de.Take, de.Answer]
    assert state.handle(StoreGroup(1, 1), "b") == [de.Answer("b", Refused(1))]
    assert kinds(state.handle(StoreGroup(1, 2), "c")) == [de.Take, de.Answer]


def test_asking_fences_earlier_attempts() -> None:
    state = host(Async())
    state.handle(push(2), "t")
    answer = state.handle(Ask(1, 7, key(0), 0, oldest=7), "t")
    assert answer == [de.Answer("t", Seen(1, 0, 3))]
    assert state.handle(push(0, attempt=6), "t") == [de.Answer("t", Refused(1, fenced=True))]
    assert kinds(state.handle(push(0, attempt=7), "t")) == [de.Apply, de.Answer]


def test_units_must_not_overlap() -> None:
    state = host(Async(merge=2))
    state.handle(push(0, batches=2), "t")
    assert state.handle(push(0, batches=2), "t") == [de.Answer("t", Acked(1))]
    with pytest.raises(ProtocolError, match="units must not overlap"):
        state.handle(push(1, batches=2), "t")
    with pytest.raises(ProtocolError, match="cannot handle"):
        state.handle("hello")


def test_sync_commits_when_every_lane_is_past_and_in_lane_order() -> None:
    state = host(Sync(), lanes=2)
    late, early = push(0, lane=1), push(0, lane=0)
    assert kinds(state.handle(late, "t")) == [de.Keep, de.Answer]
    assert kinds(state.handle(early, "t")) == [de.Keep, de.Answer]
    assert state.handle(Pull(1, 1, key(1), 1, 1), "one") == [], "lane 0 has not asked"
    commit, first, second = state.handle(Pull(1, 1, key(1), 0, 1), "zero")
    assert commit == de.Commit((0, 0), (early, late))
    assert {first.tag, second.tag} == {"zero", "one"}
    assert kinds(state.handle(late, "t")) == [de.Answer], "committed before"


def test_geo_notes_nothing_more_for_a_trainer_that_is_gone() -> None:
    assert host(Geo(k=2)).handle(do.ForgetTrainer(1, 9)) == [de.Dismiss(9)]


def pair() -> tuple[HostState, HostState]:
    """Return a primary and its live backup."""
    primary, backup = host(Async(), copy=1), HostState(2, Async())
    backup.handle(do.CreateHost(2, 0, "b", 1, None, (0,)))
    (fill,) = primary.handle(do.Attach(1, 2))
    (confirm,) = backup.handle(fill, 1)
    assert primary.handle(confirm) == [de.Report(ev.BackupReady(1, 2))]
    return primary, backup


def test_the_primary_answers_after_the_backup_and_duplicates_wait_too() -> None:
    primary, backup = pair()
    forward, apply = primary.handle(push(0), "first")
    assert kinds([forward, apply]) == [de.Forward, de.Apply], "both apply it at the same time"
    again = primary.handle(push(0), "again")
    assert kinds(again) == [de.Forward], "the backup may not have it yet"
    *done, confirm = backup.handle(forward, 1)
    assert kinds(done) == [de.Apply]
    assert primary.handle(confirm) == [de.Answer("first", Acked(1))]


def test_the_backup_follows_in_order_and_a_gap_waits() -> None:
    primary, backup = pair()
    first, second = (primary.handle(push(n), n)[0] for n in (0, 1))
    assert kinds(backup.handle(second, 1)) == [de.Confirm]
    assert kinds(backup.handle(first, 1)) == [de.Apply, de.Apply, de.Confirm]


def test_a_backup_is_ready_only_with_what_was_answered_while_it_was_filled() -> None:
    primary, backup = host(Async(), copy=1), HostState(2, Async())
    backup.handle(do.CreateHost(2, 0, "b", 1, None, (0,)))
    (fill,) = primary.handle(do.Attach(1, 2))
    answered = primary.handle(push(0), "t")
    assert kinds(answered) == [de.Forward, de.Apply, de.Answer], "no waiting for a backup that is being filled"
    assert primary.handle(backup.handle(fill, 1)[-1]) == [], "it lacks the push"
    confirm = backup.handle(answered[0], 1)[-1]
    assert primary.handle(confirm) == [de.Report(ev.BackupReady(1, 2))]


def test_a_backup_is_of_its_primarys_line() -> None:
    primary, backup = host(Async(), copy=1), HostState(2, Async())
    primary.handle(do.Rewind(1, 2, 0, (0,), line=7))
    primary.handle(de.Loaded(2, None))
    backup.handle(do.CreateHost(2, 0, "b", 2, None, (0,)))
    (fill,) = primary.handle(do.Attach(1, 2))
    backup.handle(fill, 1)
    assert (primary.standing().line, backup.standing().line) == (7, 7)


def test_a_promoted_backup_deposes_its_old_primary() -> None:
    primary, backup = pair()
    forward = primary.handle(push(0), "t")[0]
    assert backup.handle(do.Promote(2, 9, (0,))) == [de.Report(ev.HostReady(2, 9))]
    (confirm,) = backup.handle(forward, 1)
    assert confirm == de.Confirm(1, 2, 9, -1)
    assert primary.handle(confirm) == []
    assert primary.handle(push(1), "t") == [de.Answer("t", Refused(1))], "it answers nobody any more"
    assert 0 not in {k.n for k in backup.window}


def test_a_late_attach_or_create_changes_nothing() -> None:
    primary, backup = pair()
    primary.handle(do.Detach(1, 2))
    (fill,) = primary.handle(do.Attach(1, 5))
    assert fill.backup == 5
    assert primary.handle(do.Attach(1, 2)) == []
    assert primary.replica.backup == 5
    backup.handle(do.Promote(2, 9, (0,)))
    assert backup.handle(do.CreateHost(2, 0, "b", 1, None, (0,))) == []
    assert backup.term == 9


def test_a_cut_and_back() -> None:
    state = host(Async())
    for n in (0, 1):
        state.handle(push(n), "t")
    mark, report = state.handle(do.MarkCut(1, 1, 4, (0, 0)))
    assert report == de.Report(ev.CutMarked(1, 4))
    state.handle(push(2), "t")
    state.handle(do.Rewind(1, 2, 4, (0,)))
    state.handle(de.Loaded(2, mark.state))
    assert [k.n for k in state.window] == [0, 1]
    assert state.handle(do.MarkCut(1, 1, 5, (0, 0))) == [], "of the old term"


# --- the client


def client(mode: Mode, hosts: int = 2, **changes: Any) -> ClientState:
    layout = Layout(1, tuple(range(1, hosts + 1)), (1,) * hosts, tuple(range(hosts)))
    fields = {
        "start": 0,
        "lane": 0,
        "step": 0,
        "until": None,
        "serial": 0,
        "floor": (0, 0),
        "layout": layout,
        **changes,
    }
    return ClientState(do.RunSplit(5, 5, "w", 0, 0, **fields), mode)


def answer(state: ClientState, sends: list[Any], reply: Any) -> list[Any]:
    """Let every host answer; return what follows the last answer."""
    out: list[Any] = []
    for send in sends:
        if isinstance(send, cl.Send):
            out = state.reply(send.host, send.request, reply)
    return out


def test_a_client_begins_where_all_hosts_have_everything() -> None:
    state = client(Async())
    one, two = state.start()
    assert state.reply(0, one.request, Seen(1, 7, 9)) == []
    assert state.reply(1, two.request, Seen(1, 4, 4)) == [cl.Read(4)]


def test_a_unit_is_done_when_every_host_acknowledged_under_its_term() -> None:
    state = client(Async(depth=1))
    (read,) = answer(state, state.start(), Seen(1, 0, 0))
    (compute,) = answer(state, state.handle(cl.BatchRead(read.n)), Granted(1))
    one, two = state.handle(cl.Computed(compute.key, compute.stage))
    assert state.reply(0, one.request, Acked(1)) == []
    layout = state.layout._replace(version=2, terms=(1, 2), copies=(1, 9))
    (again,) = state.handle(do.Announce(5, layout))
    assert (again.host, again.request.term) == (1, 2)
    assert state.reply(1, two.request, Acked(1)) == [], "an old term says nothing"
    free, told, read = state.reply(1, again.request, Acked(2))
    assert (free, told, read) == (cl.Free(key(0), 1), cl.Tell(ev.BatchesDone(5, 1)), cl.Read(1))


def test_what_is_not_answered_is_sent_again_until_it_is() -> None:
    state = client(Async())
    one, two = state.start()
    assert state.timed_out(0, one.request) == [one]
    state.reply(0, one.request, Seen(1, 0, 0))
    assert state.timed_out(0, one.request) == []
    assert state.reply(1, two.request, Refused(3)) == [cl.Tell(ev.LayoutWanted(5))]
    assert state.timed_out(1, two.request) == [two]
    assert state.reply(1, two.request, Refused(1, fenced=True)) == []
    assert state.stopped


def test_a_draining_client_completes_what_some_host_has() -> None:
    state = client(Async(depth=1), until=0, serial=3)
    one, two = state.start()
    state.reply(0, one.request, Seen(1, 2, 2))
    assert state.reply(1, two.request, Seen(1, 1, 1)) == [cl.Read(1)]
    (compute,) = answer(state, state.handle(cl.BatchRead(1)), Granted(1))
    actions = answer(state, state.handle(cl.Computed(compute.key, "")), Acked(1))
    assert actions[-1] == cl.Tell(ev.SplitPaused(5, 2, 3))


def test_a_sync_lane_that_waits_for_others_can_be_paused() -> None:
    state = client(Sync())
    (read,) = answer(state, state.start(), Seen(1, 0, 0))
    pulls = state.handle(cl.BatchRead(read.n))
    state.reply(0, pulls[0].request, Granted(1))
    forget, *advances = state.handle(do.Pause(5, 0, 1))
    assert forget == cl.Forget(key(0))
    assert answer(state, advances, Acked(1)) == [cl.Tell(ev.SplitPaused(5, 0, 1))]
    again = state.handle(do.Resume(5, 2, state.layout))
    assert [type(send.request) for send in again] == [Pull, Pull], "the batch is still there"


def test_a_lost_stage_means_computing_elsewhere() -> None:
    layout = Layout(1, (1,), (1,), (0,), ("a", "b"))
    state = client(Async(), hosts=1, layout=layout)
    (read,) = answer(state, state.start(), Seen(1, 0, 0))
    pull, _ = state.handle(cl.BatchRead(read.n))
    (compute,) = state.reply(0, pull.request, Granted(1))
    assert compute.stage == "a"
    (other,) = state.handle(do.Announce(5, layout._replace(version=2, stages=("b",))))
    assert other == cl.Compute(key(0), "b")
    assert state.handle(do.Announce(5, layout._replace(version=3, stages=()))) == []
    assert state.handle(do.Announce(5, layout._replace(version=4, stages=("c",)))) == [cl.Compute(key(0), "c")]
    (failed,) = state.handle(cl.StepFailed(key(0), "c"))
    assert failed.stage == "c"


@given(st.lists(st.sampled_from("tg"), max_size=60), st.integers(1, 5))
def test_credits_never_leave_queues_far_apart(moves: str, count: int) -> None:
    stages = [f"s{i}" for i in range(count)]
    credits, taken = Credits(), []
    for move in moves:
        if move == "t":
            taken.append(credits.take(stages))
        elif taken:
            credits.give_back(taken.pop())
    assert sum(credits.waiting.values()) == len(taken)
    assert all(left > 0 for left in credits.waiting.values())
