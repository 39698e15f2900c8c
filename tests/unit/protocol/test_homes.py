"""Splits are run by the workers that hold their rows, as long as those can."""

from heterps.protocol import Async, RunSpec, RunState, Sync
from heterps.protocol.words import events as ev, instructions as do

HOMES = (("io1",), ("io1",), ("io1",), ("io0",), ("elsewhere",), ())


def started(spec: RunSpec, homes: tuple[tuple[str, ...], ...], io: int = 2) -> tuple[RunState, list[do.RunSplit]]:
    run = RunState(spec)
    run.handle(*(ev.WorkerJoined(f"io{i}", "io") for i in range(io)))
    (create,) = [i for i in run.handle(ev.WorkerJoined("server", "server")) if isinstance(i, do.CreateHost)]
    run.handle(ev.HostReady(create.copy, create.term))
    return run, told(run, ev.SplitsReady(0, len(homes), True, homes))


def told(run: RunState, *events: ev.Event) -> list[do.RunSplit]:
    found = [i for i in run.handle(*events) if isinstance(i, do.RunSplit)]
    run.validate()
    return found


def places(begun: list[do.RunSplit]) -> set[tuple[str, int | None]]:
    return {(each.worker, each.split) for each in begun}


def test_rows_are_read_where_they_lie_and_what_nobody_holds_by_anyone() -> None:
    run, begun = started(RunSpec(mode=Async(1)), HOMES)
    assert places(begun) == {("io1", 0), ("io0", 3)}
    at = {each.split: each for each in begun}
    (fourth,) = told(run, ev.SplitDone(at[3].attempt, 1))
    (fifth,) = told(run, ev.SplitDone(fourth.attempt, 1))
    assert places([fourth, fifth]) == {("io0", 4), ("io0", 5)}
    assert told(run, ev.SplitDone(fifth.attempt, 1)) == []  # 1 and 2 wait for the worker that has them
    (first,) = told(run, ev.SplitDone(at[0].attempt, 1))
    (second,) = told(run, ev.SplitDone(first.attempt, 1))
    assert places([first, second]) == {("io1", 1), ("io1", 2)}
    assert not run.book.over
    told(run, ev.SplitDone(second.attempt, 1))
    assert run.book.over


def test_what_a_lost_or_held_worker_has_goes_to_another() -> None:
    for event in (ev.WorkerLost("io1"), ev.WorkerHeld("io1", 1)):
        run, begun = started(RunSpec(mode=Async(1)), (("io1",), ("io1",), ("io0",)))
        at = {each.split: each for each in begun}
        assert told(run, ev.SplitDone(at[2].attempt, 1)) == []
        assert [each.worker for each in told(run, event)] == ["io0"]


def test_splits_passed_over_are_in_a_cut() -> None:
    run, begun = started(RunSpec(mode=Async(1)), (("io0",), ("io0",), ("io1",)))
    assert {each.split for each in begun} == {0, 2}
    kept = run.book.to_json()
    again = RunState(RunSpec(mode=Async(1))).book
    again.load(0, kept)
    again.supply(3, True)
    found = [again.take(None) for _ in range(4)]
    assert [work.split for work in found if work is not None] == [0, 1, 2]


def test_lanes_run_at_once_wherever_their_rows_lie() -> None:
    _, begun = started(RunSpec(mode=Sync(), lanes=2), (("io1",), ("io1",)))
    assert places(begun) == {("io1", 0), ("io0", 1)}
