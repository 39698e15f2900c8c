"""What comes, goes and moves in a run is said in words that name workers as users do."""

from heterps.protocol import RunSpec, RunState
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.modes import Sync
from heterps.runtime.run.moves import Moves

NAMES = {"a": "server-0", "b": "server-1", "x": "io-0", "y": "io-1"}


class Told:
    """A run whose words go through Moves, as its driver does it."""

    def __init__(self, **spec: object) -> None:
        self.run = RunState(RunSpec(shards=4, **spec))  # type: ignore[arg-type]
        self.moves = Moves(self.run, lambda worker: NAMES.get(worker, worker), lambda worker: worker == "x")

    def handle(self, event: ev.Event) -> list[do.Instruction]:
        self.moves.note(event)
        out = self.run.handle(event)
        for instruction in out:
            self.moves.note(instruction)
        return out


def begun(**spec: object) -> Told:
    told = Told(**spec)
    for create in told.handle(ev.ServersJoined(("a", "b"), ("a", "b"))):
        told.handle(ev.HostReady(create.copy, create.term))
    assert told.moves.taken() == (), "how it begins is no move"
    return told


def test_a_server_leaves_and_its_host_goes_over() -> None:
    told = begun(hosts=2)
    backup, attach = told.handle(ev.WorkerLeaving("a"))
    assert told.moves.taken() == ("server-0 leaves",)
    told.handle(ev.BackupReady(attach.copy, backup.copy))
    assert told.moves.taken() == ("shard host 0 is on server-1 now", "server-0 has left")
    assert told.moves.taken() == ()


def test_lanes_of_a_lost_worker_go_on_elsewhere() -> None:
    told = begun(hosts=1, mode=Sync(), lanes=2)
    told.handle(ev.SplitsReady(0, 2))
    told.handle(ev.WorkerJoined("x", "io"))
    told.handle(ev.WorkerJoined("y", "io"))
    assert told.moves.taken() == ("io-1 joins",), "the other was there when the run began"
    lane = next(a.work.lane for a in told.run.roster.attempts.values() if a.worker == "x")
    told.handle(ev.WorkerLost("x"))
    moves = told.moves.taken()
    assert moves[0] == "io-0 is lost"
    assert f"lane {lane} goes on at io-1" in moves
    told.handle(ev.WorkerLost("x"))
    assert told.moves.taken() == (), "said once"
    told.handle(ev.WorkerJoined("x", "io", stay=1))
    assert "io-0 joins" in told.moves.taken(), "it was away"


def test_a_backup_is_ready_and_takes_over() -> None:
    told = begun(hosts=1, replicas=2)
    (host,) = told.run.fleet.hosts
    assert host.backup is not None
    told.handle(ev.BackupReady(host.primary or 0, host.backup))
    assert told.moves.taken() == ("shard host 0 has a backup on server-1",)
    told.handle(ev.WorkerLost("a"))
    assert told.moves.taken() == ("server-0 is lost", "shard host 0 is on server-1 now")


def test_a_host_without_a_backup_begins_again_from_the_cut() -> None:
    told = begun(hosts=1)
    told.handle(ev.WorkerLost("a"))
    assert told.moves.taken() == ("server-0 is lost", "shard host 0 begins again on server-1")


def test_a_split_that_was_done_where_it_was_goes_on_nowhere() -> None:
    """What its number means in the next pass is another matter; and of a million Splits none is remembered."""
    told = begun(hosts=1, passes=2)
    told.handle(ev.SplitsReady(0, 1))
    run = next(each for each in told.handle(ev.WorkerJoined("x", "io")) if isinstance(each, do.RunSplit))
    told.handle(ev.WorkerJoined("y", "io"))
    told.handle(ev.WorkerLeaving("x"))
    assert told.moves._astray == {0: "x"}
    told.handle(ev.SplitDone(run.attempt, 3))
    assert told.moves._astray == {}
    told.handle(ev.SplitsReady(1, 1))
    assert not [words for words in told.moves.taken() if "goes on" in words]
