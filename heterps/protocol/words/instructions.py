"""What is to be done: the only output of :class:`~heterps.protocol.run.state.RunState`.

The engine carries them out. Those with an ``attempt`` are handed, as they are, to that attempt's
:class:`~heterps.protocol.client.state.ClientState`; those with a ``copy`` to that copy's
:class:`~heterps.protocol.host.state.HostState`; the rest are for the engine itself. They may arrive late and in any
order.
"""

from __future__ import annotations

from dataclasses import dataclass

from heterps.protocol.words.cut import Cut
from heterps.protocol.words.layout import Layout

__all__ = [
    "Abort",
    "Announce",
    "Attach",
    "Cancel",
    "CreateHost",
    "CreateStage",
    "Detach",
    "Discard",
    "DropCut",
    "Finish",
    "ForgetTrainer",
    "Instruction",
    "LetGo",
    "MarkCut",
    "MoveShards",
    "NeedSplits",
    "Own",
    "Pause",
    "Promote",
    "PublishCut",
    "Rest",
    "Resume",
    "Rewind",
    "RunSplit",
]


@dataclass(frozen=True, slots=True)
class Instruction:
    """Base of all instructions."""


# --- for workers and the attempts that run there


@dataclass(frozen=True, slots=True)
class RunSplit(Instruction):
    """Run a Split as a fresh task.

    Attributes
    ----------
    attempt
        Never used before: part of the Dask key, and what fences earlier attempts at the same Split.
    split
        None: no data, the lane only tells the hosts that it has ended (Sync).
    oldest
        Earlier attempts than this at the Split (Sync: the lane) are fenced; it is the attempt itself unless a slow
        one may go on beside it.
    start
        Batches below it are known to be applied everywhere.
    lane
        Sync: the lane.
    step
        Sync: the lane's step that batch 0 of this Split belongs to.
    until
        Begin no batch from this number on, except what some host has already seen of: for draining. None: to the end.
    trainer
        Number of its worker, never reused: hosts know by it whose rows of their own they follow.
    """

    attempt: int
    oldest: int
    worker: str
    pass_: int
    split: int | None
    start: int
    lane: int
    step: int
    until: int | None
    serial: int
    floor: tuple[int, int]
    layout: Layout
    trainer: int = 0


@dataclass(frozen=True, slots=True)
class Pause(Instruction):
    """Begin no batch from ``until`` on, finish what is in flight, then report SplitPaused (or SplitDone)."""

    attempt: int
    until: int
    serial: int


@dataclass(frozen=True, slots=True)
class Resume(Instruction):
    """Go on."""

    attempt: int
    serial: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class Cancel(Instruction):
    """End the attempt's task; it is replaced or of no use any more."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Announce(Instruction):
    """Tell an attempt the new layout: it sends again what a host with a new term has not acknowledged."""

    attempt: int
    layout: Layout


# --- for the copies of shard hosts


@dataclass(frozen=True, slots=True)
class CreateHost(Instruction):
    """Make an actor on a server worker: a primary loaded from the cut, or (``cut`` None) an empty backup to be
    filled. To ``adopt``: take the tables that a driver before left there, with all that belongs to them, as they are.
    ``line``: see :class:`Rewind`.
    """

    copy: int
    host: int
    worker: str
    term: int
    cut: int | None
    owned: tuple[int, ...]
    adopt: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class Rewind(Instruction):
    """Load the cut again in place of everything since, under a new term.

    ``line`` is another one with each return to a cut, the same for all hosts: those of different lines have nothing in
    common but what was before.
    """

    copy: int
    term: int
    cut: int
    owned: tuple[int, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Promote(Instruction):
    """The backup becomes the primary, under a new term."""

    copy: int
    term: int
    owned: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attach(Instruction):
    """Fill an empty backup and forward to it from then on."""

    copy: int
    backup: int


@dataclass(frozen=True, slots=True)
class Detach(Instruction):
    """Go on without this backup."""

    copy: int
    backup: int


@dataclass(frozen=True, slots=True)
class Discard(Instruction):
    """End the actor of a copy that is not needed any more."""

    copy: int


@dataclass(frozen=True, slots=True)
class MarkCut(Instruction):
    """Everything is drained: what the copy holds now is the cut. Splits below ``floor`` are done."""

    copy: int
    term: int
    cut: int
    floor: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Own(Instruction):
    """After a move: serve these shards under a new term and drop the rows of others."""

    copy: int
    term: int
    owned: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetTrainer(Instruction):
    """Geo: this trainer is gone; note nothing more for it."""

    copy: int
    trainer: int


# --- for the engine


@dataclass(frozen=True, slots=True)
class MoveShards(Instruction):
    """Everything is drained: copy the rows of these shards from their owners to the target, then ShardsCopied."""

    move: int
    shards: tuple[int, ...]
    target: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class CreateStage(Instruction):
    """Make the stage actors of a compute worker."""

    worker: str


@dataclass(frozen=True, slots=True)
class LetGo(Instruction):
    """Nothing of the run is on this worker any more, which was to leave: it may end."""

    worker: str


@dataclass(frozen=True, slots=True)
class NeedSplits(Instruction):
    """Cut the data of this pass into Splits and answer with SplitsReady."""

    pass_: int


@dataclass(frozen=True, slots=True)
class PublishCut(Instruction):
    """All parts are on disk: write the manifest (last, atomically) and answer with CutPublished."""

    cut: Cut


@dataclass(frozen=True, slots=True)
class DropCut(Instruction):
    """The cut will not be completed: its parts can be removed. ``reason`` where it could not be written."""

    cut: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rest(Instruction):
    """Nothing is in flight, no cut is being written, all hosts have applied the same batches: do what the rest was
    asked for, answer with RestOver.
    """

    rest: int


@dataclass(frozen=True, slots=True)
class Finish(Instruction):
    """Every batch of every pass counts exactly once in the tables."""


@dataclass(frozen=True, slots=True)
class Abort(Instruction):
    """The run cannot go on; the story says what led there. ``trained``: the tables have every batch of every pass."""

    reason: str
    story: str
    trained: bool = False
