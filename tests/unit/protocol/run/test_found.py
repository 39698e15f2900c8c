"""Where a run is, told by hosts whose driver died."""

from dataclasses import replace

from heterps.protocol import BatchKey, Cut, Phase, RunSpec, RunState, Sync, Window
from heterps.protocol.host.lanes import Lanes
from heterps.protocol.host.standing import HostStanding
from heterps.protocol.run.found import FoundRun, found
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.messages import FAR, Push


def window(*keys: tuple[int, int, int], floor: tuple[int, int] = (0, 0)) -> HostStanding:
    """Return a host of an Async run that has applied these."""
    applied = Window()
    applied.raise_floor(floor)
    for key in keys:
        applied.add(BatchKey(*key))
    return HostStanding(applied, [])


def lanes(*rows: list) -> HostStanding:
    """Return a host of a Sync run, of each lane: pass, step, batch, step up to which it has staged."""
    return HostStanding(Window(), [list(row) for row in rows])


def test_splits_are_where_all_hosts_have_everything() -> None:
    first = window((1, 2, 0), (1, 2, 1), (1, 4, 0), floor=(1, 1))
    second = window((1, 2, 0), (1, 2, 2), (1, 1, 0), floor=(1, 0))
    told = found(Cut(3, 1, {"low": 0, "done": [3], "starts": [], "fresh": 4}), [first, second], ordered=False)
    assert told == FoundRun(1, {"low": 1, "done": [3], "starts": [[1, 0], [2, 1], [4, 0]], "fresh": 5})


def test_what_the_cut_says_of_an_earlier_pass_does_not_count() -> None:
    told = found(Cut(3, 0, {"low": 7, "done": [9], "fresh": 10}), [window((2, 0, 0)), window()], ordered=False)
    assert told == FoundRun(2, {"low": 0, "done": [], "starts": [[0, 0]], "fresh": 1})


def test_hosts_of_which_some_have_returned_to_a_cut_and_others_not_yet_are_no_run() -> None:
    before, after = lanes([0, 7, BatchKey(0, 4, 2), 8]), lanes([0, 0, None, 0])
    assert found(Cut(), [before, replace(before, line=0)], ordered=True) is not None
    for ordered in (True, False):
        assert found(Cut(), [before, replace(after, line=1)], ordered=ordered) is None


def test_every_return_to_a_cut_is_another_line_and_the_same_one_for_all_hosts() -> None:
    run = RunState(RunSpec(shards=4, hosts=2))
    created = run.handle(ev.ServersJoined(("a", "b")))
    run.handle(*(ev.HostReady(c.copy, c.term) for c in created))
    back = run.handle(ev.CopyLost(created[0].copy))
    assert len({create.line for create in created}) == 1
    assert {type(i): i.line for i in back if hasattr(i, "line")} == dict.fromkeys((do.Rewind, do.CreateHost), 1)


def test_a_lane_is_where_the_foremost_host_says() -> None:
    one = lanes([0, 7, BatchKey(0, 4, 2), 8], [0, 6, BatchKey(0, 1, 6), 0])
    two = lanes([0, 6, BatchKey(0, 4, 1), 7], [0, 6, BatchKey(0, 1, 6), 7])
    assert found(Cut(), [one, two], ordered=True) == FoundRun(0, {"lanes": [[4, 5, 2, False], [1, 0, 6, False]]})


def test_a_lane_that_has_ended_on_some_hosts_is_told_to_all() -> None:
    ended, behind = [1, 0, BatchKey(1, -1, 0), 5], [0, 5, BatchKey(0, 0, 5), 0]
    other = [0, 4, BatchKey(0, 1, 4), 0]
    told = found(Cut(), [lanes(ended, other), lanes(behind, other)], ordered=True)
    assert told == FoundRun(0, {"lanes": [[FAR, 5, 0, False], [1, 0, 4, False]]})
    told = found(Cut(), [lanes(ended, other), lanes(ended, other)], ordered=True)
    assert told is not None
    assert told.progress["lanes"][0] == [FAR, 5, 0, True]


def test_a_pass_that_nobody_has_begun_is_for_the_run_to_begin() -> None:
    """There may be none: then what is found is the end."""
    ended = [1, 0, BatchKey(1, -1, 0), 0]
    told = found(Cut(), [lanes(ended, ended)], ordered=True)
    assert told == FoundRun(0, {"lanes": [[FAR, 0, 0, True], [FAR, 0, 0, True]]})
    begun = [1, 0, BatchKey(1, 0, 0), 0]
    told = found(Cut(), [lanes(begun, ended)], ordered=True)
    assert told == FoundRun(1, {"lanes": [[0, 0, 0, False], [1, 0, 0, False]]})


def test_lanes_of_which_nobody_has_heard_since_the_cut_are_where_it_was() -> None:
    cut = Cut(5, 2, {"lanes": [[3, 8, 2, False], [1, 0, 0, False]]})
    told = found(cut, [lanes([2, 10, None, 0], [0, 0, None, 0])], ordered=True)
    assert told == FoundRun(2, cut.progress)
    assert found(cut, [lanes([2, 11, None, 0], [0, 0, None, 0])], ordered=True) is None, "nobody says which batch it is"


def test_a_host_says_where_its_lanes_are() -> None:
    host = Lanes(2)
    host.stage(Push(1, 1, BatchKey(0, 2, 1), 0, 4, 1))
    host.reach(1, BatchKey(1, -1, 0), 0)
    assert host.standing() == [[0, 4, BatchKey(0, 2, 1), 5], [1, 0, BatchKey(1, -1, 0), 0]]
    assert host.copy().standing() == host.standing()


def attached(hosts: int = 2) -> tuple[RunState, list[do.Instruction]]:
    """Return a run that was found ahead of its cut, and what it wants done once its servers are there."""
    cut = Cut(4, 0, {"lanes": [[0, 0, 1, False]]}, Sync().to_json())
    run = RunState(RunSpec(mode=Sync(), passes=2, hosts=hosts, shards=4), cut=cut, life=3, found=FoundRun(1, {}))
    holds = tuple((host, f"s{host}") for host in range(hosts))
    return run, run.handle(ev.ServersJoined(("s0", "s1"), ("", ""), holds))


def test_tables_that_outlived_their_driver_are_adopted_where_they_are() -> None:
    run, out = attached()
    creates = [each for each in out if isinstance(each, do.CreateHost)]
    assert [(c.host, c.worker, c.adopt) for c in creates] == [(0, "s0", True), (1, "s1", True)]
    out = run.handle(*(ev.HostReady(c.copy, c.term) for c in creates))
    assert (run.phase, run.book.pass_) == (Phase.RUNNING, 1)
    assert run.book.dirty
    assert do.NeedSplits(1) in out


def test_tables_that_are_not_all_there_are_not_adopted() -> None:
    run, out = attached(hosts=3)
    assert not any(create.adopt for create in out if isinstance(create, do.CreateHost))
    assert run.book.to_json()["lanes"] == [[0, 0, 1, False]]


def test_one_that_is_lost_before_all_are_there_takes_all_back_to_the_cut() -> None:
    run, out = attached()
    first, second = (each for each in out if isinstance(each, do.CreateHost))
    run.handle(ev.HostReady(first.copy, first.term))
    out = run.handle(ev.WorkerLost("s1"))
    (rewind,) = (each for each in out if isinstance(each, do.Rewind))
    (create,) = (each for each in out if isinstance(each, do.CreateHost))
    assert (rewind.copy, rewind.cut) == (first.copy, 4)
    assert (create.host, create.worker, create.cut, create.adopt) == (second.host, "s0", 4, False)
    assert run.book.pass_ == 0
    out = run.handle(ev.HostReady(rewind.copy, rewind.term), ev.HostReady(create.copy, create.term))
    assert do.NeedSplits(0) in out
