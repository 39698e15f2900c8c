"""What a host's engine is to do: the output of :class:`~heterps.protocol.host.state.HostState`.

They are carried out in the order in which they were returned: an Answer may leave only after the changes before it are
queued to the threads that own the rows, and a Serve reads after them. (The messages between primary and backup are here
too, as the primary's decision *is* the message.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from heterps.protocol.host.lanes import Lanes, Position
from heterps.protocol.host.window import Window
from heterps.protocol.words.events import Event
from heterps.protocol.words.messages import Granted, Push, Reply, Request, StoreGroup

__all__ = [
    "Answer",
    "Apply",
    "Commit",
    "Confirm",
    "Decision",
    "Dismiss",
    "Fill",
    "Forward",
    "Insert",
    "Keep",
    "Load",
    "Loaded",
    "Mark",
    "Report",
    "Retain",
    "Serve",
    "Snapshot",
    "Take",
    "TakeIn",
]


class Answer(NamedTuple):
    """Send the reply to whoever made the request with this tag; with one to a push in Geo, what has changed."""

    tag: Any
    reply: Reply


class Serve(NamedTuple):
    """Read the rows of the request and send them with the reply."""

    tag: Any
    request: Request
    reply: Granted


class Apply(NamedTuple):
    """Apply the gradients that came with this push. With Commit, the only decision that changes a parameter."""

    push: Push


class Keep(NamedTuple):
    """Sync: keep the gradients that came with this push until its Commit."""

    push: Push


class Commit(NamedTuple):
    """Sync: apply the sum of the kept gradients of these pushes, added in this order, as one step; free them."""

    position: Position
    pushes: tuple[Push, ...]


class Load(NamedTuple):
    """Replace all rows by those of the cut for the owned shards, drop kept gradients, then hand in Loaded."""

    term: int
    cut: int
    owned: tuple[int, ...]


class Mark(NamedTuple):
    """The rows as they are now, and this state beside them, are the host's part of the cut; write it, then
    CutWritten.
    """

    cut: int
    state: dict[str, Any]


class Insert(NamedTuple):
    """Take in the rows of shards that came with this message."""

    message: TakeIn


class Take(NamedTuple):
    """Replace the parameters of the all-reduce group by those that came with this message."""

    message: StoreGroup


class Retain(NamedTuple):
    """Drop the rows of all other shards, and all kept gradients."""

    owned: tuple[int, ...]


class Dismiss(NamedTuple):
    """Geo: this trainer is gone; note nothing more for it."""

    trainer: int


class Report(NamedTuple):
    """Give the event to the run's RunState."""

    event: Event


# --- messages between copies, and from the engine to its own HostState


class TakeIn(NamedTuple):
    """Rows of shards that move to this host; answered when the backup has them too."""

    term: int
    shards: tuple[int, ...]


class Loaded(NamedTuple):
    """The rows of the cut are there; ``state`` is what lay beside them (None for cut 0: nothing was applied)."""

    term: int
    state: dict[str, Any] | None


class Forward(NamedTuple):
    """Primary to backup: do this next. What came with the request travels along."""

    backup: int
    term: int
    seq: int
    request: Any


class Fill(NamedTuple):
    """Primary to backup: start from this. All rows and kept gradients as they are now travel along."""

    backup: int
    term: int
    seq: int
    snapshot: Snapshot


class Confirm(NamedTuple):
    """Backup to primary: everything up to ``seq`` is done. ``seq`` -1: your term is old, you are deposed."""

    primary: int
    backup: int
    term: int
    seq: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a host as its backup needs it."""

    window: Window
    lanes: Lanes
    fences: dict[tuple[int, int], int]
    owned: tuple[int, ...]
    line: int = 0


Decision = (
    Answer
    | Serve
    | Apply
    | Keep
    | Commit
    | Load
    | Mark
    | Insert
    | Take
    | Retain
    | Dismiss
    | Report
    | Forward
    | Fill
    | Confirm
)
