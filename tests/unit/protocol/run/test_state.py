"""RunState by hand: one situation per test."""

import pytest

from heterps.errors import PlanError, ProtocolError
from heterps.protocol import Async, Cut, Geo, MixedSync, Mode, Phase, RunSpec, RunState, Sync, deal_shards, owned_by
from heterps.protocol.words import events as ev, group as gr, instructions as do


def started(
    spec: RunSpec, *, splits: int = 2, io: int = 1, servers: int = 1, holders: tuple[tuple[str, ...], ...] = ()
) -> tuple[RunState, list[do.Instruction]]:
    """Return a run whose hosts are ready, and what it wants done then."""
    run = RunState(spec)
    out = run.handle(*(ev.WorkerJoined(f"io{i}", "io") for i in range(io)))
    out += run.handle(*(ev.WorkerJoined(f"server{i}", "server") for i in range(servers)))
    creates = [i for i in out if isinstance(i, do.CreateHost)]
    out = run.handle(*(ev.HostReady(c.copy, c.term) for c in creates))
    assert do.NeedSplits(0) in out
    out += run.handle(ev.SplitsReady(0, splits, holders=holders))
    run.validate()
    return run, out


def only(out: list[do.Instruction], kind: type) -> list:
    return [i for i in out if isinstance(i, kind)]


def test_a_lost_worker_means_a_fresh_attempt_from_the_known_progress() -> None:
    run, out = started(RunSpec(shards=2), io=2)
    first, second = only(out, do.RunSplit)
    assert {first.split, second.split} == {0, 1}
    run.handle(ev.BatchesDone(first.attempt, 5))
    assert run.handle(ev.WorkerLost(first.worker)) == []
    (again,) = only(run.handle(ev.SplitDone(second.attempt, 3)), do.RunSplit)
    assert (again.split, again.start) == (first.split, 5)
    assert again.oldest == again.attempt > second.attempt
    assert run.handle(ev.SplitDone(first.attempt, 9)) == []  # stale


def test_an_event_that_cannot_be_is_an_error_with_the_story() -> None:
    run, _ = started(RunSpec(shards=2))
    with pytest.raises(ProtocolError, match=r"attempt 99 was never made(.|\n)*RunSplit"):
        run.handle(ev.SplitDone(99, 1))
    with pytest.raises(ProtocolError, match="shards are 0 to 1"):
        run.handle(ev.MoveAsked((7,), 0))
    run.handle(ev.SplitsReady(0, 2))
    with pytest.raises(ProtocolError, match="was complete with 2"):
        run.handle(ev.SplitsReady(0, 3))
    with pytest.raises(ProtocolError, match="no event"):
        run.handle("hello")  # type: ignore[arg-type]


def test_retries_end_when_there_is_no_progress() -> None:
    run, out = started(RunSpec(shards=2, retries=2), splits=1)
    for _ in range(2):
        (attempt,) = only(out, do.RunSplit)
        out = run.handle(ev.SplitFailed(attempt.attempt, "boom"))
    (attempt,) = only(out, do.RunSplit)
    run.handle(ev.BatchesDone(attempt.attempt, 1))
    out = run.handle(ev.SplitFailed(attempt.attempt, "boom"))
    assert only(out, do.RunSplit), "progress counts"
    for _ in range(2):
        (attempt,) = only(out, do.RunSplit)
        out = run.handle(ev.SplitFailed(attempt.attempt, "boom"))
    (abort,) = only(out, do.Abort)
    assert run.phase is Phase.ABORTED
    assert "Split 0 of pass 0" in abort.reason
    assert "boom" in abort.reason
    assert "SplitFailed" in abort.story
    assert run.handle(ev.CutAsked()) == []


def test_a_clock_that_asks_while_the_last_cut_is_written_does_not_keep_the_run_from_ending() -> None:
    run, out = started(RunSpec(shards=2, final_cut=True), splits=1)
    (mark,) = only(run.handle(ev.SplitDone(only(out, do.RunSplit)[0].attempt, 3)), do.MarkCut)
    run.handle(ev.CutMarked(mark.copy, mark.cut), ev.CutAsked())
    assert only(run.handle(ev.CutWritten(mark.copy, mark.cut)), do.PublishCut)
    out = run.handle(ev.CutAsked(), ev.CutPublished(mark.cut))
    assert only(out, do.Finish)
    assert not only(out, do.MarkCut)


def test_a_cut_that_failed_is_made_again_at_the_end() -> None:
    run, out = started(RunSpec(shards=2, final_cut=True), splits=2)
    (first,) = only(out, do.RunSplit)
    (pause,) = only(run.handle(ev.CutAsked()), do.Pause)
    (mark,) = only(run.handle(ev.SplitPaused(first.attempt, 1, pause.serial)), do.MarkCut)
    run.handle(ev.CutMarked(mark.copy, mark.cut))
    assert only(run.handle(ev.CutFailed(mark.copy, mark.cut, "no room")), do.DropCut)
    (second,) = only(run.handle(ev.SplitDone(first.attempt, 2)), do.RunSplit)
    (last,) = only(run.handle(ev.SplitDone(second.attempt, 2)), do.MarkCut)
    run.handle(ev.CutMarked(last.copy, last.cut))
    (abort,) = only(run.handle(ev.CutFailed(last.copy, last.cut, "no room")), do.Abort)
    assert "last cut could not be written" in abort.reason
    assert abort.trained


def test_a_rest_comes_when_nothing_is_in_flight_and_ends_when_it_is_over() -> None:
    run, out = started(RunSpec(shards=2), io=2)
    one, two = only(out, do.RunSplit)
    pauses = {pause.attempt: pause for pause in only(run.handle(ev.RestAsked(7)), do.Pause)}
    assert not only(run.handle(ev.SplitPaused(one.attempt, 1, pauses[one.attempt].serial)), do.Rest)
    assert run.handle(ev.SplitPaused(two.attempt, 2, pauses[two.attempt].serial)) == [do.Rest(7)]
    assert run.phase is Phase.RESTING
    run.validate()
    assert len(only(run.handle(ev.RestOver(7)), do.Resume)) == 2
    assert run.handle(ev.RestAsked(7)) == [], "a late word of a rest that is over"
    assert run.phase is Phase.RUNNING


def test_a_rest_that_is_given_up_before_it_begins_lets_the_run_go_on() -> None:
    run, out = started(RunSpec(shards=2), splits=1)
    (attempt,) = only(out, do.RunSplit)
    (pause,) = only(run.handle(ev.RestAsked(1), ev.RestOver(1)), do.Pause)
    assert only(run.handle(ev.SplitPaused(attempt.attempt, 1, pause.serial)), do.Resume)


def test_a_host_lost_while_the_run_rests_returns_to_the_cut_and_rests_again() -> None:
    run, out = started(RunSpec(shards=2), splits=1, servers=2)
    (attempt,) = only(out, do.RunSplit)
    (pause,) = only(run.handle(ev.RestAsked(1)), do.Pause)
    run.handle(ev.SplitPaused(attempt.attempt, 1, pause.serial))
    (create,) = only(run.handle(ev.CopyLost(1)), do.CreateHost)
    out = run.handle(ev.HostReady(create.copy, create.term))
    assert run.phase is Phase.RESTING
    assert only(out, do.Rest)


def test_a_fatal_failure_aborts_at_once() -> None:
    run, out = started(RunSpec(shards=2))
    out = run.handle(ev.SplitFailed(only(out, do.RunSplit)[0].attempt, "no such file", fatal=True))
    assert "no such file" in only(out, do.Abort)[0].reason


def test_a_lost_host_takes_all_back_to_the_cut() -> None:
    run, out = started(RunSpec(hosts=2, shards=2), servers=2)
    (attempt,) = only(out, do.RunSplit)
    run.handle(ev.BatchesDone(attempt.attempt, 4))
    lost, kept = attempt.layout.copies
    out = run.handle(ev.CopyLost(lost))
    assert only(out, do.Cancel) == [do.Cancel(attempt.attempt)]
    (rewind,) = only(out, do.Rewind)
    assert (rewind.copy, rewind.cut) == (kept, 0)
    assert rewind.term > attempt.layout.terms[1]
    (create,) = only(out, do.CreateHost)
    assert create.term > attempt.layout.terms[0]
    run.handle(ev.HostReady(kept, attempt.layout.terms[1]))  # of the old term: says nothing
    assert run.phase is Phase.RESTORING
    out = run.handle(ev.HostReady(create.copy, create.term), ev.HostReady(kept, rewind.term))
    (again,) = only(out, do.RunSplit)
    assert (again.split, again.start) == (0, 0)
    run.validate()


def test_a_cut_that_a_host_cannot_load_takes_all_back_to_the_one_before() -> None:
    run, out = started(RunSpec(hosts=2, shards=2), servers=2)
    (attempt,) = only(out, do.RunSplit)
    (pause,) = only(run.handle(ev.CutAsked()), do.Pause)
    marks = only(run.handle(ev.SplitPaused(attempt.attempt, 3, pause.serial)), do.MarkCut)
    run.handle(*(ev.CutMarked(m.copy, m.cut) for m in marks), *(ev.CutWritten(m.copy, m.cut) for m in marks))
    run.handle(ev.CutPublished(marks[0].cut))
    out = run.handle(ev.CopyLost(marks[0].copy))
    (rewind,), (create,) = only(out, do.Rewind), only(out, do.CreateHost)
    assert rewind.cut == create.cut == marks[0].cut
    lost = ev.CutLost(rewind.cut, Cut(mode=Async().to_json()), "a bit has flipped")
    again = run.handle(ev.HostReady(create.copy, create.term), lost)
    assert [(i.copy, i.cut) for i in only(again, do.Rewind)] == [(create.copy, 0), (rewind.copy, 0)]
    assert all(i.term > max(rewind.term, create.term) for i in only(again, do.Rewind))
    assert run.handle(lost) == [], "the other host's word of the same cut"
    out = run.handle(*(ev.HostReady(i.copy, i.term) for i in only(again, do.Rewind)))
    (issued,) = only(out, do.RunSplit)
    assert (issued.split, issued.start) == (0, 0)
    run.validate()


def test_a_cut_that_is_lost_while_nobody_needs_it_is_not_returned_to() -> None:
    run, _ = started(RunSpec(shards=2), servers=2)
    run.cut = Cut(7, mode=Async().to_json())
    assert run.handle(ev.CutLost(7, Cut(3, mode=Async().to_json()), "gone")) == []
    (create,) = only(run.handle(ev.CopyLost(1)), do.CreateHost)
    assert create.cut == 3
    (abort,) = only(run.handle(ev.CutLost(3, None, "gone as well")), do.Abort)
    assert "none before it: gone as well" in abort.reason


def test_a_ready_backup_is_promoted_and_nothing_is_cancelled() -> None:
    run, out = started(RunSpec(shards=2, replicas=2), servers=2)
    (attempt,) = only(out, do.RunSplit)
    (attach,) = only(out, do.Attach)
    run.handle(ev.BackupReady(attach.copy, attach.backup))
    (promote,) = run.handle(ev.CopyLost(attach.copy))[:1]
    assert isinstance(promote, do.Promote)
    assert promote.copy == attach.backup
    out = run.handle(ev.HostReady(promote.copy, promote.term))
    (announce,) = only(out, do.Announce)
    assert announce.attempt == attempt.attempt
    assert announce.layout.copies == (promote.copy,)
    assert announce.layout.terms == (promote.term,)
    assert announce.layout.version > attempt.layout.version


def test_a_backup_that_is_not_ready_is_not_promoted() -> None:
    run, out = started(RunSpec(shards=2, replicas=2), servers=2)
    (attach,) = only(out, do.Attach)
    out = run.handle(ev.CopyLost(attach.copy))
    assert not only(out, do.Promote)
    assert only(out, do.Discard) == [do.Discard(attach.backup)]
    assert run.phase is Phase.RESTORING


def test_a_cut_waits_for_everything_and_counts_when_published() -> None:
    run, out = started(RunSpec(shards=2), io=2)
    one, two = only(out, do.RunSplit)
    pauses = only(run.handle(ev.CutAsked()), do.Pause)
    assert [p.attempt for p in pauses] == [one.attempt, two.attempt]
    run.handle(ev.SplitPaused(one.attempt, 3, pauses[0].serial))
    assert run.phase is Phase.DRAINING
    (mark,) = only(run.handle(ev.SplitDone(two.attempt, 7)), do.MarkCut)
    (resume,) = only(run.handle(ev.CutMarked(mark.copy, mark.cut)), do.Resume)
    assert resume.attempt == one.attempt
    assert run.cut.number == 0
    (publish,) = only(run.handle(ev.CutWritten(mark.copy, mark.cut)), do.PublishCut)
    assert publish.cut.progress["starts"] == [[0, 3]]
    assert run.cut.number == 0, "not before the manifest is on disk"
    run.handle(ev.CutPublished(mark.cut))
    assert run.cut == publish.cut
    assert Cut.from_json(publish.cut.to_json()) == publish.cut
    later = RunState(run.spec, cut=publish.cut, life=1)
    (create,) = later.handle(ev.WorkerJoined("s", "server"))
    assert isinstance(create, do.CreateHost)
    assert create.cut == mark.cut
    out = later.handle(ev.HostReady(create.copy, create.term), ev.WorkerJoined("w", "io"))
    assert out == [do.NeedSplits(0)], "nothing runs before the engine knows the Splits"
    (again,) = only(later.handle(ev.SplitsReady(0, 2)), do.RunSplit)
    assert (again.split, again.start) == (0, 3)
    assert again.attempt > two.attempt


def test_a_split_that_lost_its_worker_is_looked_at_before_a_cut() -> None:
    run, out = started(RunSpec(shards=2), splits=1)
    (attempt,) = only(out, do.RunSplit)
    run.handle(ev.WorkerLost("io0"), ev.CutAsked())
    assert run.phase is Phase.DRAINING
    assert run.waiting_for() == ("an io worker to run Splits",)
    (again,) = only(run.handle(ev.WorkerJoined("io9", "io")), do.RunSplit)
    assert again.until == 0
    assert again.oldest > attempt.attempt
    assert only(run.handle(ev.SplitPaused(again.attempt, 2, again.serial)), do.MarkCut)


def test_sync_lanes_are_levelled_before_a_cut() -> None:
    run, out = started(RunSpec(mode=Sync(), lanes=2, shards=2), io=2)
    one, two = only(out, do.RunSplit)
    pauses = only(run.handle(ev.CutAsked()), do.Pause)
    run.handle(ev.SplitPaused(one.attempt, 4, pauses[0].serial))
    (further,) = only(run.handle(ev.SplitPaused(two.attempt, 3, pauses[1].serial)), do.Pause)
    assert (further.attempt, further.until) == (two.attempt, 4)
    assert only(run.handle(ev.SplitPaused(two.attempt, 4, further.serial)), do.MarkCut)


def test_sync_lanes_move_to_a_worker_that_joins() -> None:
    run, out = started(RunSpec(mode=Sync(), lanes=4, shards=2), splits=4)
    assert [r.lane for r in only(out, do.RunSplit)] == [0, 1, 2, 3]
    pauses = only(run.handle(ev.WorkerJoined("new", "io")), do.Pause)
    assert len(pauses) == 2
    for pause in pauses:
        out = run.handle(ev.SplitPaused(pause.attempt, 1, pause.serial))
        (moved,) = only(out, do.RunSplit)
        assert (moved.worker, moved.start) == ("new", 1)
        assert do.Cancel(pause.attempt) in out


def test_a_slow_lane_runs_twice_and_the_first_result_wins() -> None:
    run, out = started(RunSpec(mode=Sync(), lanes=1, shards=2), splits=1, io=2)
    (slow,) = only(out, do.RunSplit)
    (twin,) = only(run.handle(ev.SplitSlow(slow.attempt)), do.RunSplit)
    assert twin.worker != slow.worker
    assert twin.oldest == slow.attempt, "the slow one is not fenced"
    out = run.handle(ev.SplitDone(twin.attempt, 2))
    assert do.Cancel(slow.attempt) in out
    assert run.handle(ev.SplitDone(slow.attempt, 2)) == []


def test_a_slow_split_runs_twice_where_there_is_room_and_the_first_result_wins() -> None:
    run, out = started(RunSpec(shards=2), splits=2, io=2)
    slow, other = only(out, do.RunSplit)
    assert run.handle(ev.SplitSlow(slow.attempt)) == [], "others have something better to do"
    run.handle(ev.SplitDone(other.attempt, 3))
    (twin,) = only(run.handle(ev.SplitSlow(slow.attempt)), do.RunSplit)
    assert (twin.worker, twin.split, twin.oldest) == (other.worker, slow.split, slow.attempt)
    assert run.handle(ev.SplitSlow(slow.attempt)) == [], "twice is enough"
    run.validate()
    assert run.run_twice == 1
    out = run.handle(ev.SplitDone(slow.attempt, 2))
    assert do.Cancel(twin.attempt) in out
    assert do.Finish() in out


def test_a_split_that_runs_twice_is_asked_for_anew_before_a_cut() -> None:
    run, out = started(RunSpec(shards=2), splits=1, io=2)
    (slow,) = only(out, do.RunSplit)
    (twin,) = only(run.handle(ev.SplitSlow(slow.attempt)), do.RunSplit)
    first, _ = only(run.handle(ev.CutAsked()), do.Pause)
    out = run.handle(ev.SplitPaused(slow.attempt, 1, first.serial))
    assert {do.Cancel(slow.attempt), do.Cancel(twin.attempt)} <= set(out)
    (fresh,) = only(out, do.RunSplit)
    assert not only(out, do.MarkCut)
    assert fresh.oldest == fresh.attempt, "both are fenced"


def test_in_geo_a_slow_split_goes_over() -> None:
    run, out = started(RunSpec(mode=Geo(k=2), shards=2), splits=1, io=2)
    (slow,) = only(out, do.RunSplit)
    out = run.handle(ev.WorkerPaced(slow.worker, True, 1), ev.SplitSlow(slow.attempt))
    assert do.Cancel(slow.attempt) in out
    (again,) = only(out, do.RunSplit)
    assert again.worker != slow.worker
    assert again.oldest == again.attempt


@pytest.mark.parametrize("mode", [Sync(), Async()])
def test_what_does_not_stop_for_a_cut_is_run_elsewhere_up_to_where_all_hosts_agree(mode: Mode) -> None:
    run, out = started(RunSpec(mode=mode, lanes=2, shards=2), splits=2, io=2)
    slow, other = only(out, do.RunSplit)
    pauses = {pause.attempt: pause for pause in only(run.handle(ev.CutAsked()), do.Pause)}
    run.handle(ev.SplitPaused(other.attempt, 1, pauses[other.attempt].serial))
    out = run.handle(ev.WorkerPaced(slow.worker, True, 1), ev.SplitSlow(slow.attempt))
    assert do.Cancel(slow.attempt) in out
    (again,) = only(out, do.RunSplit)
    assert (again.worker, again.split, again.until) == (other.worker, slow.split, 0)
    run.validate()
    assert only(run.handle(ev.SplitPaused(again.attempt, 1, again.serial)), do.MarkCut)


def test_a_worker_that_was_lost_comes_back_under_a_greater_stay() -> None:
    run, out = started(RunSpec(shards=2), splits=3, io=2)
    first, _ = only(out, do.RunSplit)
    run.handle(ev.WorkerLost(first.worker))
    assert run.handle(ev.WorkerJoined(first.worker, "io")) == [], "a word from before"
    (again,) = only(run.handle(ev.WorkerJoined(first.worker, "io", stay=1)), do.RunSplit)
    assert again.worker == first.worker
    assert run.handle(ev.WorkerLost(first.worker)) == [], "it has come back since"
    assert again.attempt in run.roster.attempts
    run.handle(ev.WorkerLost(first.worker, stay=1))
    assert again.attempt not in run.roster.attempts
    run.handle(ev.WorkerLost("late", stay=2), ev.WorkerJoined("late", "io", stay=2))
    assert "late" not in run.roster.workers, "it was lost before the word that it joined had come"


def test_a_slow_worker_is_given_something_only_where_there_is_no_other() -> None:
    run, out = started(RunSpec(mode=Sync(), lanes=2, shards=2), splits=4, io=2)
    slow, other = only(out, do.RunSplit)
    run.handle(ev.WorkerPaced(slow.worker, True, 2), ev.WorkerPaced(slow.worker, False, 1))
    (next_,) = only(run.handle(ev.SplitDone(slow.attempt, 3)), do.RunSplit)
    assert next_.worker == other.worker, "the later look counts, and lanes are not dealt evenly to it"
    out = run.handle(ev.WorkerLost(other.worker))
    assert {again.worker for again in only(out, do.RunSplit)} == {slow.worker}
    assert len(only(run.handle(ev.WorkerPaced(slow.worker, False, 3), ev.WorkerJoined("new", "io")), do.Pause)) == 1


def test_a_lane_whose_lost_twin_may_have_gone_further_is_asked_for_anew_before_a_cut() -> None:
    run, out = started(RunSpec(mode=Sync(), lanes=1, shards=2), splits=1, io=2)
    (slow,) = only(out, do.RunSplit)
    (twin,) = only(run.handle(ev.SplitSlow(slow.attempt)), do.RunSplit)
    run.handle(ev.SplitFailed(slow.attempt, "boom"))  # hosts may have all that it sent
    (pause,) = only(run.handle(ev.CutAsked()), do.Pause)
    out = run.handle(ev.SplitPaused(twin.attempt, 1, pause.serial))
    assert do.Cancel(twin.attempt) in out
    (fresh,) = only(out, do.RunSplit)
    assert not only(out, do.MarkCut)
    assert only(run.handle(ev.SplitPaused(fresh.attempt, 4, fresh.serial)), do.MarkCut)
    assert run.book.to_json()["lanes"] == [[0, 0, 4, False]]


def test_a_worker_that_has_read_its_split_is_given_another_beside_it() -> None:
    run, out = started(RunSpec(shards=2), splits=3)
    (first,) = only(out, do.RunSplit)
    (second,) = only(run.handle(ev.SplitEnding(first.attempt)), do.RunSplit)
    run.validate()
    assert (second.worker, second.split) == (first.worker, 1)
    assert run.handle(ev.SplitEnding(first.attempt)) == [], "told twice"
    assert run.handle(ev.SplitDone(first.attempt, 4)) == [], "its slot was given away before"
    assert run.handle(ev.SplitEnding(first.attempt)) == [], "stale"
    (third,) = only(run.handle(ev.SplitDone(second.attempt, 4)), do.RunSplit)
    assert third.split == 2


def test_a_cut_takes_a_slot_from_who_has_one() -> None:
    """What has read its Split has none: to stop that one alone would leave the cut without a worker for ever."""
    run, out = started(RunSpec(shards=2), splits=3)
    (first,) = only(out, do.RunSplit)
    (lost,) = only(run.handle(ev.SplitEnding(first.attempt)), do.RunSplit)
    (third,) = only(run.handle(ev.SplitEnding(lost.attempt)), do.RunSplit)
    run.handle(ev.WorkerHeld(first.worker, 1), ev.SplitSlow(lost.attempt))
    paused = only(run.handle(ev.CutAsked()), do.Pause)
    assert {pause.attempt for pause in paused} == {first.attempt, third.attempt}
    assert not only(run.handle(*(ev.SplitPaused(pause.attempt, 0, pause.serial) for pause in paused)), do.MarkCut)
    (again,) = only(run.handle(ev.WorkerFreed(first.worker, 2)), do.RunSplit)
    assert again.split == lost.split, "whether it was applied must be known before a cut"


def test_splits_of_a_worker_that_dies_between_two_are_both_run_again() -> None:
    run, out = started(RunSpec(shards=2), splits=2)
    (first,) = only(out, do.RunSplit)
    (second,) = only(run.handle(ev.SplitEnding(first.attempt)), do.RunSplit)
    run.handle(ev.WorkerLost(first.worker))
    (again,) = only(run.handle(ev.WorkerJoined("new", "io")), do.RunSplit)
    (last,) = only(run.handle(ev.SplitDone(again.attempt, 4)), do.RunSplit)
    assert [again.split, last.split] == [first.split, second.split]
    assert only(run.handle(ev.SplitDone(last.attempt, 4)), do.Finish)


def test_a_move_copies_first_and_then_changes_all_terms() -> None:
    run, out = started(RunSpec(hosts=2, shards=4), servers=2)
    (attempt,) = only(out, do.RunSplit)
    (pause,) = only(run.handle(ev.MoveAsked((0,), 1)), do.Pause)
    (move,) = only(run.handle(ev.SplitPaused(attempt.attempt, 0, pause.serial)), do.MoveShards)
    assert run.layout().owners == (0, 0, 1, 1)
    owns = only(run.handle(ev.ShardsCopied(move.move)), do.Own)
    assert [own.owned for own in owns] == [(1,), (0, 2, 3)]
    assert all(own.term > term for own, term in zip(owns, attempt.layout.terms, strict=True))
    out = run.handle(*(ev.HostReady(own.copy, own.term) for own in owns))
    (resume,) = only(out, do.Resume)
    assert resume.layout.owners == (1, 0, 1, 1)
    assert run.phase is Phase.RUNNING


def test_disk_full_gives_the_cut_up_and_the_run_goes_on() -> None:
    run, out = started(RunSpec(shards=2), splits=1)
    (attempt,) = only(out, do.RunSplit)
    (pause,) = only(run.handle(ev.CutAsked()), do.Pause)
    (mark,) = only(run.handle(ev.SplitPaused(attempt.attempt, 0, pause.serial)), do.MarkCut)
    out = run.handle(ev.CutMarked(mark.copy, mark.cut), ev.CutFailed(mark.copy, mark.cut, "disk full"))
    assert do.DropCut(mark.cut, "disk full") in out
    assert run.phase is Phase.RUNNING
    assert run.cut.number == 0


def test_stage_workers_come_and_go_by_announcement() -> None:
    run, out = started(RunSpec(shards=2, compute=True), splits=1)
    (attempt,) = only(out, do.RunSplit)
    assert attempt.layout.stages == ()
    assert run.waiting_for() == ("a compute worker with its stage actors",)
    assert run.handle(ev.WorkerJoined("gpu0", "compute")) == [do.CreateStage("gpu0")]
    (announce,) = run.handle(ev.StageReady("gpu0"))
    assert isinstance(announce, do.Announce)
    assert announce.layout.stages == ("gpu0",)
    assert run.handle(ev.StageLost("gpu0"))[0] == do.CreateStage("gpu0")


def test_a_stage_holder_is_on_a_compute_worker_and_takes_all_back_when_that_is_lost() -> None:
    run = RunState(RunSpec(hosts=2, shards=2, replicas=2, compute=True, stage_hosts=1))
    out = run.handle(ev.WorkerJoined("io0", "io"), ev.ServersJoined(("server0", "server1")))
    (host,) = only(out, do.CreateHost)
    assert (host.host, host.owned) == (0, (0, 1))
    assert run.waiting_for()[0] == "a compute worker for the dense parameters"
    (holder,) = only(run.handle(ev.WorkerJoined("gpu0", "compute"), ev.WorkerJoined("gpu1", "compute")), do.CreateHost)
    assert (holder.host, holder.worker, holder.owned) == (1, "gpu0", ())
    out = run.handle(ev.HostReady(host.copy, host.term), ev.HostReady(holder.copy, holder.term), ev.SplitsReady(0, 1))
    assert [attach.copy for attach in only(out, do.Attach)] == [host.copy]  # a holder has no backup
    run.handle(ev.StageReady("gpu0"), ev.StageReady("gpu1"))
    run.validate()
    out = run.handle(ev.WorkerLost("gpu1"))
    assert not only(out, do.Rewind)
    out = run.handle(ev.WorkerLost("gpu0"), ev.WorkerJoined("gpu2", "compute"))
    (rewind,) = only(out, do.Rewind)
    assert (rewind.copy, rewind.cut) == (host.copy, 0)
    (again,) = only(out, do.CreateHost)
    assert (again.host, again.worker) == (1, "gpu2")
    assert again.term > holder.term
    run.validate()


def test_a_lost_worker_does_not_come_back_under_its_name() -> None:
    run, _ = started(RunSpec(shards=2), splits=1)
    run.handle(ev.WorkerLost("io0"))
    assert run.handle(ev.WorkerJoined("io0", "io")) == []
    assert only(run.handle(ev.WorkerJoined("io1", "io")), do.RunSplit)


def test_geo_forgets_the_trainer_of_a_lost_worker() -> None:
    run, out = started(RunSpec(mode=Geo(k=2), shards=2), splits=1)
    (attempt,) = only(out, do.RunSplit)
    (forget,) = only(run.handle(ev.WorkerLost("io0")), do.ForgetTrainer)
    assert forget.trainer == attempt.trainer
    (again,) = only(run.handle(ev.WorkerJoined("io1", "io")), do.RunSplit)
    assert again.trainer != attempt.trainer


@pytest.mark.parametrize(
    "wrong", [{"passes": 0}, {"replicas": 3}, {"hosts": 5, "shards": 4}, {"hosts": 2, "stage_hosts": 1}]
)
def test_a_spec_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(PlanError, match="run: "):
        RunSpec(**wrong)  # type: ignore[arg-type]


def test_a_cut_of_another_mode_is_refused() -> None:
    with pytest.raises(PlanError, match="use the cut's mode"):
        RunState(RunSpec(mode=Async(merge=2)), cut=Cut(mode=Async().to_json()))


def test_every_shard_has_one_host_and_every_host_a_shard() -> None:
    for shards, hosts in ((1, 1), (7, 3), (1024, 5)):
        owners = deal_shards(shards, hosts)
        assert [shard for host in range(hosts) for shard in owned_by(owners, host)] == list(range(shards))
        assert all(owned_by(owners, host) for host in range(hosts))
    for hosts in (0, 8):
        with pytest.raises(PlanError, match=rf"7 logical shards cannot be dealt to {hosts} hosts"):
            deal_shards(7, hosts)


def test_a_held_worker_is_given_nothing_until_it_is_freed_whatever_order_that_is_told_in() -> None:
    run = RunState(RunSpec(shards=4))
    (create,) = run.handle(ev.WorkerJoined("s", "server"))
    run.handle(ev.WorkerJoined("w", "io"), ev.WorkerHeld("w", 1), ev.SplitsReady(0, 2))
    assert not only(run.handle(ev.HostReady(create.copy, create.term)), do.RunSplit)
    assert "an io worker to run Splits" in run.waiting_for()
    freed = run.handle(ev.WorkerFreed("w", 4), ev.WorkerHeld("w", 3))
    assert only(freed, do.RunSplit)
    assert not run.waiting_for()
    run.handle(ev.WorkerHeld("w", 5))
    assert not run.waiting_for()  # what it runs goes on


def test_what_was_said_of_a_worker_before_it_joined_counts() -> None:
    run = RunState(RunSpec(shards=4))
    (create,) = run.handle(ev.WorkerJoined("s", "server"))
    run.handle(ev.WorkerHeld("w", 1), ev.WorkerFreed("w", 2), ev.WorkerJoined("w", "io"), ev.WorkerHeld("w", 1))
    run.handle(ev.WorkerHeld("v", 3), ev.WorkerJoined("v", "io"), ev.SplitsReady(0, 2))
    begun = only(run.handle(ev.HostReady(create.copy, create.term)), do.RunSplit)
    assert {split.worker for split in begun} == {"w"}, "one was freed, whatever is heard again; the other is held"
    run.handle(ev.WorkerLost("v"))
    assert only(run.handle(ev.WorkerJoined("v", "io", stay=1)), do.RunSplit), "that was said of another"


def made(instructions: list[do.Instruction]) -> list[tuple[int, str, bool]]:
    """Return the copies that are to be made: host, worker, whether it is a backup."""
    return [(c.host, c.worker, c.cut is None) for c in instructions if isinstance(c, do.CreateHost)]


def test_a_backup_is_put_on_another_machine_where_there_is_one() -> None:
    run = RunState(RunSpec(shards=4, hosts=1, replicas=2))
    (create,) = run.handle(ev.ServersJoined(("a1", "a2", "b1"), ("a", "a", "b")))
    assert made(run.handle(ev.HostReady(create.copy, create.term))) == [(0, "b1", True)]
    assert (run.fleet.unprotected, run.fleet.together) == (1, 0)


def test_a_backup_beside_its_primary_is_better_than_none_and_said_so() -> None:
    run = RunState(RunSpec(shards=4, hosts=1, replicas=2))
    (create,) = run.handle(ev.ServersJoined(("a1", "a2"), ("a", "a")))
    backup, *_ = run.handle(ev.HostReady(create.copy, create.term))
    assert made([backup]) == [(0, "a2", True)]
    run.handle(ev.BackupReady(create.copy, backup.copy))
    assert (run.fleet.unprotected, run.fleet.together) == (0, 1)


def test_hosts_are_placed_where_their_tables_are_though_two_lie_on_one_worker() -> None:
    run = RunState(RunSpec(shards=4, hosts=3))
    held = ((1, "b"), (2, "b"), (0, "gone"))
    placed = made(run.handle(ev.ServersJoined(("a", "b", "c"), holds=held)))
    assert sorted(placed) == [(0, "a", False), (1, "b", False), (2, "b", False)]


def test_backups_are_made_anew_when_rows_were_changed_behind_their_backs() -> None:
    run = RunState(RunSpec(shards=4, hosts=1, replicas=2))
    (create,) = run.handle(ev.ServersJoined(("a", "b"), ("a", "b")))
    backup, *_ = run.handle(ev.HostReady(create.copy, create.term))
    run.handle(ev.BackupReady(create.copy, backup.copy))
    assert not run.handle(ev.RestOver(1)), "nothing was changed"
    out = run.handle(ev.RestOver(2, changed=True))
    assert [type(i) for i in out] == [do.Detach, do.Discard, do.CreateHost, do.Attach]
    assert run.fleet.unprotected == 1
    assert not run.handle(ev.RestOver(2, changed=True)), "a word that comes twice"


def two_hosts(replicas: int = 1) -> tuple[RunState, list[do.CreateHost]]:
    """Two hosts on servers a and b, both ready."""
    run = RunState(RunSpec(shards=4, hosts=2, replicas=replicas))
    created = run.handle(ev.ServersJoined(("a", "b"), ("a", "b")))
    for create in created:
        run.handle(ev.HostReady(create.copy, create.term))
    return run, created


def test_a_server_that_leaves_hands_its_hosts_over_and_goes_when_it_has_none() -> None:
    run, (first, second) = two_hosts()
    backup, attach = run.handle(ev.WorkerLeaving("a"))
    assert made([backup]) == [(0, "b", True)]
    assert attach == do.Attach(first.copy, backup.copy)
    out = run.handle(ev.BackupReady(first.copy, backup.copy))
    assert [type(i) for i in out] == [do.Promote, do.Discard, do.LetGo]
    assert (out[0].copy, out[1].copy, out[2].worker) == (backup.copy, first.copy, "a")
    run.handle(ev.HostReady(backup.copy, out[0].term))
    assert run.layout().copies == (backup.copy, second.copy)
    assert run.fleet.workers == {"b": "b"}


def test_a_server_that_joins_takes_a_host_of_one_that_has_two_more() -> None:
    run = RunState(RunSpec(shards=4, hosts=2))
    created = run.handle(ev.ServersJoined(("a",), ("a",)))
    for create in created:
        run.handle(ev.HostReady(create.copy, create.term))
    backup, attach = run.handle(ev.ServersJoined(("b",), ("b",)))
    assert made([backup]) == [(0, "b", True)]
    promote, discard = run.handle(ev.BackupReady(attach.copy, backup.copy))
    run.handle(ev.HostReady(promote.copy, promote.term))
    assert discard == do.Discard(created[0].copy)
    assert sorted(worker for _, worker in run.fleet.places.values()) == ["a", "b"]


def test_a_ready_backup_takes_over_at_once_from_a_server_that_leaves() -> None:
    run, created = two_hosts(replicas=2)
    backups = {host.index: host.backup for host in run.fleet.hosts}
    run.handle(ev.BackupReady(created[0].copy, backups[0]), ev.BackupReady(created[1].copy, backups[1]))
    out = run.handle(ev.WorkerLeaving("a"))
    kinds = [type(i) for i in out]
    assert kinds == [do.Promote, do.Discard, do.Detach, do.Discard, do.LetGo], "also the backup of host 1 goes"
    assert run.fleet.unprotected == 2


def test_nobody_hands_over_while_a_cut_is_written() -> None:
    run, (first, _) = two_hosts()
    run.handle(ev.WorkerJoined("io", "io"), ev.SplitsReady(0, 1), ev.CutAsked())
    attempt = next(iter(run.roster.attempts.values()))
    run.handle(ev.SplitPaused(attempt.number, 0, attempt.serial))
    copies = [host.primary for host in run.fleet.hosts]
    run.handle(*(ev.CutMarked(copy, 1) for copy in copies))
    backup, _ = run.handle(ev.WorkerLeaving("a"))
    assert run.handle(ev.BackupReady(first.copy, backup.copy)) == [], "its part of the cut would be lost with it"
    run.handle(*(ev.CutWritten(copy, 1) for copy in copies))
    assert do.Promote in [type(i) for i in run.handle(ev.CutPublished(1))]


def cut_of_two_hosts_with_backups() -> tuple[RunState, list[int]]:
    """A cut that both hosts have marked, and only the first has written."""
    run, created = two_hosts(replicas=2)
    backups = [host.backup for host in run.fleet.hosts]
    run.handle(*(ev.BackupReady(c.copy, backup) for c, backup in zip(created, backups, strict=True)))
    run.handle(ev.WorkerJoined("io", "io"), ev.SplitsReady(0, 1), ev.CutAsked())
    attempt = next(iter(run.roster.attempts.values()))
    run.handle(ev.SplitPaused(attempt.number, 0, attempt.serial))
    copies = [create.copy for create in created]
    run.handle(*(ev.CutMarked(copy, 1) for copy in copies), ev.CutWritten(copies[0], 1))
    return run, copies


def test_a_cut_is_given_up_when_one_that_wrote_its_part_is_lost_before_the_others_have() -> None:
    """The one that is promoted in its place knows nothing of that part."""
    run, (first, second) = cut_of_two_hosts_with_backups()
    kinds = [type(i) for i in run.handle(ev.CopyLost(first))]
    assert kinds[:2] == [do.Promote, do.DropCut]
    assert do.PublishCut not in [type(i) for i in run.handle(ev.CutWritten(second, 1))]


def test_a_cut_that_cannot_be_published_any_more_is_given_up() -> None:
    run, (first, second) = cut_of_two_hosts_with_backups()
    assert do.PublishCut in [type(i) for i in run.handle(ev.CutWritten(second, 1))]
    out = run.handle(ev.CopyLost(first))
    assert do.DropCut(1, "") in out
    assert run.handle(ev.CutPublished(1)) == [], "no engine says so of a cut that was given up"
    run.handle(ev.HostReady(out[0].copy, out[0].term), ev.CutAsked())
    (attempt,) = run.roster.attempts.values()
    out = run.handle(ev.SplitPaused(attempt.number, 0, attempt.serial))
    assert [i.cut for i in out if isinstance(i, do.MarkCut)] == [2, 2]


def test_a_backup_that_takes_over_marks_no_cut_that_failed_meanwhile() -> None:
    run, created = two_hosts(replicas=2)
    backups = [host.backup for host in run.fleet.hosts]
    run.handle(*(ev.BackupReady(c.copy, backup) for c, backup in zip(created, backups, strict=True)))
    run.handle(ev.WorkerJoined("io", "io"), ev.SplitsReady(0, 1), ev.CutAsked())
    (attempt,) = run.roster.attempts.values()
    run.handle(ev.SplitPaused(attempt.number, 0, attempt.serial))
    first, second = (create.copy for create in created)
    promote, *_ = run.handle(ev.CutMarked(first, 1), ev.CopyLost(second))
    assert isinstance(promote, do.Promote)
    run.handle(ev.CutFailed(first, 1, "disk full"))
    out = run.handle(ev.HostReady(promote.copy, promote.term))
    assert do.MarkCut not in [type(i) for i in out]
    assert do.Resume in [type(i) for i in out]


def test_those_who_served_the_group_last_are_foremost() -> None:
    """One that was away may have applied as much, and not know how far lanes have come."""
    run = RunState(RunSpec(shards=4, mode=Sync(), lanes=2, group=True))
    (create,) = run.handle(ev.WorkerJoined("s", "server"))
    run.handle(ev.WorkerJoined("a", "io"), ev.WorkerJoined("b", "io"))
    form, *_ = run.handle(ev.HostReady(create.copy, create.term))
    run.handle(ev.MemberFormed("a", form.term, (0, 5), served=7))
    out = run.handle(ev.MemberFormed("b", form.term, (0, 4), served=8))
    assert {i.worker: i.source for i in out} == {"a": "b", "b": "b"}


@pytest.mark.parametrize("trained", [True, False])
def test_one_who_was_away_while_others_served_has_nothing(trained: bool) -> None:
    """They trained without it and are gone: back to the last cut, or to the hosts if nothing was trained."""
    run = RunState(RunSpec(shards=4, mode=Sync(), lanes=2, group=True))
    (create,) = run.handle(ev.WorkerJoined("s", "server"))
    run.handle(ev.WorkerJoined("a", "io"))
    form, *_ = run.handle(ev.HostReady(create.copy, create.term))
    run.handle(ev.MemberFormed("a", form.term, (0, 5), served=form.term - 1), ev.MemberReady("a", form.term))
    if trained:
        run.handle(ev.SplitsReady(0, 1))
    form, *_ = run.handle(ev.WorkerLost("a"), ev.WorkerJoined("b", "io", stay=1))
    (out, *_) = run.handle(ev.MemberFormed("b", form.term, (0, 4), served=form.term - 2))
    assert out.cut == 0 if trained else out.source == ""


def test_an_io_worker_goes_when_its_splits_have_stopped() -> None:
    run, _ = two_hosts()
    run.handle(ev.WorkerJoined("x", "io"), ev.WorkerJoined("y", "io"), ev.SplitsReady(0, 2))
    attempt = next(a for a in run.roster.attempts.values() if a.worker == "x")
    (pause,) = run.handle(ev.WorkerLeaving("x"))
    out = run.handle(ev.SplitPaused(attempt.number, 3, pause.serial))
    assert do.LetGo("x") in out
    assert "x" not in run.roster.workers


def test_a_compute_worker_goes_at_once_and_attempts_compute_elsewhere() -> None:
    run = RunState(RunSpec(shards=4, compute=True))
    (create,) = run.handle(ev.WorkerJoined("a", "server"))
    run.handle(ev.HostReady(create.copy, create.term))
    run.handle(*(ev.WorkerJoined(name, "compute") for name in "uv"), *(ev.StageReady(name) for name in "uv"))
    run.handle(ev.WorkerJoined("x", "io"), ev.SplitsReady(0, 1))
    announce, let_go = run.handle(ev.WorkerLeaving("u"))
    assert isinstance(announce, do.Announce)
    assert announce.layout.stages == ("v",)
    assert let_go == do.LetGo("u")
    assert run.handle(ev.StageReady("u")) == []


def reducing_stages() -> tuple[RunState, list[do.Instruction]]:
    """A run of two lanes whose dense parameters stage worker "u" holds alone, and what that wants done."""
    run = RunState(RunSpec(shards=4, mode=Sync(), lanes=2, compute=True, group=True))
    (create,) = run.handle(ev.WorkerJoined("a", "server"))
    run.handle(ev.HostReady(create.copy, create.term), *(ev.WorkerJoined(name, "compute") for name in "uv"))
    (form,) = run.handle(ev.StageReady("u"))
    assert form.members == ("u",)
    run.handle(ev.WorkerJoined("x", "io", slots=2), ev.SplitsReady(0, 2))
    run.handle(ev.MemberFormed("u", form.term, None, served=0))
    return run, run.handle(ev.MemberReady("u", form.term))


def test_lanes_begin_anew_when_a_stage_worker_joins_the_group() -> None:
    """Under the new term, when all members are ready; what was under way is cancelled before."""
    run, out = reducing_stages()
    first = only(out, do.RunSplit)
    assert [run.layout().home(split.lane) for split in first] == ["u", "u"]
    out = run.handle(ev.StageReady("v"))
    assert only(out, do.Announce) == []
    assert [i.attempt for i in only(out, do.Cancel)] == [split.attempt for split in first]
    form = only(out, gr.FormGroup)[0]
    assert form.members == ("u", "v")
    run.handle(*(ev.MemberFormed(name, form.term, (0, 0), served=form.term - 1) for name in "uv"))
    again = only(run.handle(*(ev.MemberReady(name, form.term) for name in "uv")), do.RunSplit)
    assert [split.layout.home(split.lane) for split in again] == ["u", "v"]
    assert {split.oldest for split in again} == {split.attempt for split in again}, "the attempts before are fenced"


def test_a_lane_that_stands_when_a_stage_worker_is_lost_goes_on() -> None:
    run, out = reducing_stages()
    run.handle(ev.StageReady("v"))
    form = run.group
    assert form is not None
    run.handle(*(ev.MemberFormed(name, form.term, (0, 0), served=form.term - 1) for name in "uv"))
    attempts = only(run.handle(*(ev.MemberReady(name, form.term) for name in "uv")), do.RunSplit)
    pauses = only(run.handle(ev.RestAsked(1)), do.Pause)
    run.handle(*(ev.SplitPaused(p.attempt, 0, p.serial) for p in pauses))
    out = run.handle(ev.WorkerLost("v"))
    assert only(out, do.Cancel) == []
    assert set(run.roster.attempts) == {split.attempt for split in attempts}


def test_a_compute_worker_that_holds_parameters_stays() -> None:
    run = RunState(RunSpec(shards=4, hosts=2, compute=True, stage_hosts=1))
    out = run.handle(ev.WorkerJoined("a", "server"), ev.WorkerJoined("u", "compute"))
    for create in (i for i in out if isinstance(i, do.CreateHost)):
        run.handle(ev.HostReady(create.copy, create.term))
    run.handle(ev.StageReady("u"))
    assert run.handle(ev.WorkerLeaving("u")) == []
    assert run.layout().stages == ("u",)


def test_a_worker_that_is_to_leave_before_it_has_joined_is_not_used() -> None:
    run, _ = two_hosts()
    assert run.handle(ev.WorkerLeaving("late")) == [do.LetGo("late")]
    run.handle(ev.WorkerJoined("late", "io"))
    assert "late" not in run.roster.workers
    assert run.handle(ev.WorkerLeaving("late")) == []


@pytest.mark.parametrize(("mode", "second"), [(Sync(), "io1"), (MixedSync(3), "io0")])
def test_a_lane_with_rows_of_its_own_goes_back_to_them(mode: Mode, second: str) -> None:
    """Else it is run where its data is."""
    run, out = started(RunSpec(mode, shards=2), splits=2, io=2, holders=(("io0",), ("io1",)))
    (first,) = only(out, do.RunSplit)
    assert first.worker == "io0"
    (following,) = only(run.handle(ev.SplitDone(first.attempt, 4)), do.RunSplit)
    assert (following.split, following.worker) == (1, second)


def test_a_lane_that_is_to_leave_its_worker_is_not_given_back_to_it() -> None:
    run, out = started(RunSpec(MixedSync(3), lanes=2, shards=2), io=1)
    assert {attempt.worker for attempt in only(out, do.RunSplit)} == {"io0"}
    (pause,) = only(run.handle(ev.WorkerJoined("io1", "io")), do.Pause)
    (moved,) = only(run.handle(ev.SplitPaused(pause.attempt, 3, pause.serial)), do.RunSplit)
    assert (moved.worker, moved.start) == ("io1", 3)
