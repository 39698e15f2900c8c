"""What clients and hosts say to each other. Arrays travel beside these headers, never in them.

Every request carries the term the client believes the host to have, and the attempt it belongs to. Every reply carries
the term under which it was given: a reply of another term than the client's says nothing and is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from heterps.protocol.words.keys import BatchKey

__all__ = [
    "FAR",
    "Acked",
    "Advance",
    "Ask",
    "Granted",
    "Pull",
    "Push",
    "Refused",
    "Reply",
    "Request",
    "Seen",
    "StoreGroup",
]

FAR = 1 << 62
"""A batch or step number beyond every real one."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Where does this Split (Sync: this lane) stand? Also fences attempts at it before ``oldest``."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    oldest: int
    floor: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Pull:
    """Read rows for a batch. In Sync it also says: all pushes of earlier steps of this lane are acknowledged."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    step: int


@dataclass(frozen=True, slots=True)
class Push:
    """Gradients of ``batches`` batches from ``key`` on; changes of rows that a worker trains itself come with the last
    one of a range, and ``settles`` says of how many batches.
    """

    term: int
    attempt: int
    key: BatchKey
    lane: int
    step: int
    batches: int
    settles: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Sync: the lane's next step is this one (of this pass); all its pushes of earlier steps are acknowledged."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    step: int


Request = Ask | Pull | Push | Advance


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """A member of the all-reduce group gives a host its parameters; the greatest serial is the newest."""

    term: int
    serial: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Answer to Ask: every batch (Sync: step) below ``low`` has arrived, none from ``top`` on has."""

    term: int
    low: int
    top: int


@dataclass(frozen=True, slots=True)
class Granted:
    """Answer to Pull: the rows come with it. Not in Sync: every batch of the Split before ``low`` is in them."""

    term: int
    low: int = 0


@dataclass(frozen=True, slots=True)
class Acked:
    """Answer to Push and Advance: done, now or earlier, on every replica."""

    term: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The term does not fit (``fenced`` False) or a later attempt at the Split is under way (``fenced`` True)."""

    term: int
    fenced: bool = False


Reply = Seen | Granted | Acked | Refused
