"""What the members of an all-reduce group are told, say to each other, and decide.

Every compute worker of a run is a *member*: it holds all parameters of the group and owns one segment of each gradient.
A lane talks to the member in its own process, its *home*; the home relays what the lane says to every member, and
answers when all of them have confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from heterps.protocol.words.decisions import Answer, Keep, Report, Serve
from heterps.protocol.words.instructions import Instruction
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.messages import Push, Reply, Request

__all__ = [
    "Add",
    "CatchUp",
    "CaughtUp",
    "Confirmed",
    "Fetch",
    "Fetched",
    "FormGroup",
    "Give",
    "GroupState",
    "MemberDecision",
    "Obtain",
    "Position",
    "Relay",
    "Relayed",
    "Settle",
    "Settled",
    "TakeStep",
    "Want",
    "WriteBack",
]

Position = tuple[int, int]
"""Pass and step; ordered."""


# --- instructions of the run; ``worker`` is the member


@dataclass(frozen=True, slots=True)
class FormGroup(Instruction):
    """These are the members from now on, under this term. What was under way is forgotten, not what was applied.

    ``base`` grows when the run returns to a cut: parameters of an earlier one are dropped. Answer: MemberFormed.
    """

    worker: str
    term: int
    base: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CatchUp(Instruction):
    """Take the parameters from the member ``source``, or from the shard hosts if that is empty. Answer: MemberReady."""

    worker: str
    term: int
    source: str
    pass_: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class WriteBack(Instruction):
    """Everything is drained: give the parameters to the shard hosts. Answer: WrittenBack."""

    worker: str
    term: int
    serial: int
    layout: Layout


# --- between members


@dataclass(frozen=True, slots=True)
class Relayed:
    """What a lane said to its home ``home``; the gradient's segment of the receiver comes with a Push."""

    term: int
    home: str
    request: Request


@dataclass(frozen=True, slots=True)
class Want:
    """Send me the sum of your segment for this step."""

    term: int
    position: Position


class GroupState(NamedTuple):
    """What goes with the parameters from member to member."""

    applied: Position
    frontier: tuple[Position, ...]
    fences: tuple[tuple[int, int], ...]


# --- what a member's engine did


class Confirmed(NamedTuple):
    """A member answered a relay."""

    member: str
    request: Request
    reply: Reply


class Fetched(NamedTuple):
    """The sum of a member's segment is here."""

    term: int
    member: str
    position: Position


class CaughtUp(NamedTuple):
    """The parameters are here; with them came ``state``."""

    term: int
    state: GroupState


class Settled(NamedTuple):
    """All shard hosts have taken the parameters."""

    term: int
    serial: int


# --- decisions of a member


class Relay(NamedTuple):
    """Send a lane's request to a member; its answer comes back as Confirmed."""

    member: str
    message: Relayed


class Add(NamedTuple):
    """Every lane has pushed this step, or has none: add the segment owned here in this order, lane by lane."""

    position: Position
    pushes: tuple[Push, ...]


class Fetch(NamedTuple):
    """Ask a member for the sum of its segment, until it comes: Fetched."""

    member: str
    message: Want


class Give(NamedTuple):
    """Send the sum of the segment owned here."""

    tag: Any
    position: Position


class TakeStep(NamedTuple):
    """All sums are here: one step of each parameter's rule. The only decision that changes a parameter."""

    position: Position
    pushes: tuple[Push, ...]


class Obtain(NamedTuple):
    """Get the parameters from a member, or from the shard hosts if ``source`` is empty: CaughtUp."""

    term: int
    source: str
    layout: Layout


class Settle(NamedTuple):
    """Give the parameters to every shard host with a Store, until all have them: Settled."""

    term: int
    serial: int
    layout: Layout


MemberDecision = Answer | Serve | Keep | Report | Relay | Add | Fetch | Give | TakeStep | Obtain | Settle
