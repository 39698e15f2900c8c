"""What happened: the only input of :class:`~heterps.protocol.run.state.RunState`.

Events reach it late, in any order and possibly twice; those that concern a replaced attempt, copy or term are stale and
change nothing. They may not be lost while their sender lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heterps.protocol.words.cut import Cut

__all__ = [
    "AbortAsked",
    "BackupReady",
    "BatchesDone",
    "CopyLost",
    "CutAsked",
    "CutFailed",
    "CutLost",
    "CutMarked",
    "CutPublished",
    "CutWritten",
    "Diverged",
    "Event",
    "HostReady",
    "LaneWaits",
    "LayoutWanted",
    "MemberFormed",
    "MemberReady",
    "MoveAsked",
    "RestAsked",
    "RestOver",
    "Role",
    "ServersJoined",
    "ShardsCopied",
    "SplitDone",
    "SplitEnding",
    "SplitFailed",
    "SplitPaused",
    "SplitSlow",
    "SplitsReady",
    "StageLost",
    "StageReady",
    "WorkerFreed",
    "WorkerHeld",
    "WorkerJoined",
    "WorkerLeaving",
    "WorkerLost",
    "WorkerPaced",
    "WrittenBack",
]

Role = Literal["io", "compute", "server"]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


# --- workers


@dataclass(frozen=True, slots=True)
class WorkerJoined(Event):
    """A Dask worker is there. One that was lost and comes back has a greater ``stay``; a new process has a new name."""

    worker: str
    role: Role
    slots: int = 1
    """How many Splits it runs at once (io, not Sync: there a worker runs all lanes it owns at once)."""
    stay: int = 0


@dataclass(frozen=True, slots=True)
class ServersJoined(Event):
    """Several server workers are there at once: hosts are spread over all of them, not put on the first.

    ``machines`` says where each of them runs, so that a backup is put on another machine than its primary where there
    is one. ``holds`` are hosts whose tables lie on one of these workers from a run before: they are placed there.
    For ``stays`` see :class:`WorkerJoined`; none: 0 of each.
    """

    workers: tuple[str, ...]
    machines: tuple[str, ...] = ()
    holds: tuple[tuple[int, str], ...] = ()
    stays: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerLeaving(Event):
    """A worker is to go: its Splits move at the next batch boundary, its shard hosts once they were copied; then
    :class:`~heterps.protocol.words.instructions.LetGo`.
    """

    worker: str


@dataclass(frozen=True, slots=True)
class WorkerHeld(Event):
    """An io worker can begin nothing for now, such as one whose memory is nearly full; what it runs goes on.

    ``look`` grows with every word of the engine about what workers can do: a later one overrules those before.
    """

    worker: str
    look: int


@dataclass(frozen=True, slots=True)
class WorkerFreed(Event):
    """A worker that was held can be given Splits again. For ``look`` see :class:`WorkerHeld`."""

    worker: str
    look: int


@dataclass(frozen=True, slots=True)
class WorkerPaced(Event):
    """An io worker is far behind the others, or is thought not to be any more: others are given work before it.

    For ``look`` see :class:`WorkerHeld`; the two are counted apart.
    """

    worker: str
    slow: bool
    look: int


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """A worker is gone, or frozen for too long; whatever it still sends is fenced. Its ``stay`` is over."""

    worker: str
    stay: int = 0


# --- data and splits


@dataclass(frozen=True, slots=True)
class SplitsReady(Event):
    """Splits 0 … count-1 of a pass can be handed out; ``complete`` says that there will be no more in this pass.

    ``holders`` names the workers that have the rows of each Split already, where any do; it may be shorter.
    """

    pass_: int
    count: int
    complete: bool = True
    holders: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BatchesDone(Event):
    """Progress: every batch of the attempt's Split below ``upto`` is applied on all hosts. May be dropped or merged."""

    attempt: int
    upto: int


@dataclass(frozen=True, slots=True)
class SplitPaused(Event):
    """Nothing of the attempt is in flight; it goes on at batch ``upto`` when resumed. Repeats the Pause's serial."""

    attempt: int
    upto: int
    serial: int


@dataclass(frozen=True, slots=True)
class SplitEnding(Event):
    """All batches of the attempt are read: beside what is left of it, its worker can begin another. May be dropped."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SplitDone(Event):
    """Every batch of the Split is applied (Sync: staged, and asked to be committed) on all hosts."""

    attempt: int
    batches: int


@dataclass(frozen=True, slots=True)
class SplitFailed(Event):
    """The attempt ended with an error; ``fatal`` when trying again cannot help."""

    attempt: int
    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class SplitSlow(Event):
    """The attempt is far behind: it is run a second time elsewhere, and the first result wins.

    Replaced instead where two cannot be: by a copy of rows that would be trained twice (Geo), by one that has not begun
    on a worker that is held, or by one that was told to stop and does not.
    """

    attempt: int


@dataclass(frozen=True, slots=True)
class LayoutWanted(Event):
    """A client was refused by a host with a newer term."""

    attempt: int


# --- hosts


@dataclass(frozen=True, slots=True)
class HostReady(Event):
    """A copy answers under this term (created, rewound, promoted or given new shards)."""

    copy: int
    term: int


@dataclass(frozen=True, slots=True)
class BackupReady(Event):
    """The backup has everything its primary ever acknowledged, and will."""

    copy: int
    backup: int


@dataclass(frozen=True, slots=True)
class CopyLost(Event):
    """A copy of a host is gone, or silent for too long, though its worker may live."""

    copy: int


@dataclass(frozen=True, slots=True)
class StageReady(Event):
    """The stage actors of a compute worker can be called."""

    worker: str


@dataclass(frozen=True, slots=True)
class StageLost(Event):
    """The stage actors of a compute worker are gone though the worker lives."""

    worker: str


# --- cuts and hand-over


@dataclass(frozen=True, slots=True)
class CutAsked(Event):
    """Time for a cut (by the engine's count of batches or seconds, or by the user)."""


@dataclass(frozen=True, slots=True)
class CutMarked(Event):
    """A copy marked the cut; from here on it saves a row's old value before the first change."""

    copy: int
    cut: int


@dataclass(frozen=True, slots=True)
class CutWritten(Event):
    """A copy's part of the cut is on disk."""

    copy: int
    cut: int


@dataclass(frozen=True, slots=True)
class CutFailed(Event):
    """A copy could not write its part, or the engine its manifest (disk full): the cut is given up, the previous one
    stays. The engine says 0 for the copy.
    """

    copy: int
    cut: int
    reason: str


@dataclass(frozen=True, slots=True)
class Diverged(Event):
    """So many batches in a row had a loss that is no finite number: to go on is of no use."""

    batches: int


@dataclass(frozen=True, slots=True)
class CutPublished(Event):
    """The manifest of the cut is on disk: from now on the run can return to it."""

    cut: int


@dataclass(frozen=True, slots=True)
class CutLost(Event):
    """A published cut cannot be read any more; ``before`` is the newest of the run before it, None if there is none."""

    cut: int
    before: Cut | None
    reason: str


@dataclass(frozen=True, slots=True)
class RestAsked(Event):
    """The engine has something to do with all hosts while nothing is in flight: a Rest of this number follows."""

    rest: int


@dataclass(frozen=True, slots=True)
class RestOver(Event):
    """The engine is done with what it asked a rest for, or has given it up, perhaps before the rest came.

    ``changed``: it has changed rows of the copies that answer; backups, which only repeat requests, do not have that.
    """

    rest: int
    changed: bool = False


@dataclass(frozen=True, slots=True)
class MoveAsked(Event):
    """Move logical shards to another host."""

    shards: tuple[int, ...]
    target: int


@dataclass(frozen=True, slots=True)
class ShardsCopied(Event):
    """The target of a move (and its backup) has the rows of all its shards; the sources still have them too."""

    move: int


@dataclass(frozen=True, slots=True)
class AbortAsked(Event):
    """Stop the run (user's interrupt, an error of the engine)."""

    reason: str


# --- the all-reduce group


@dataclass(frozen=True, slots=True)
class MemberFormed(Event):
    """A member has taken note of a new term; all steps before ``applied`` are in its parameters (None: it has none).

    ``served`` is the last term under which it was ready: what lanes were told after that it may not know.
    """

    worker: str
    term: int
    applied: tuple[int, int] | None
    served: int = 0


@dataclass(frozen=True, slots=True)
class MemberReady(Event):
    """A member has the parameters of the foremost one and answers under this term."""

    worker: str
    term: int


@dataclass(frozen=True, slots=True)
class WrittenBack(Event):
    """The shard hosts have the parameters of the group."""

    worker: str
    term: int
    serial: int


@dataclass(frozen=True, slots=True)
class LaneWaits(Event):
    """A lane that was told to stop has pushed to the group and waits for the other lanes: it will stand at ``upto``."""

    attempt: int
    upto: int
    serial: int
