"""What clients and hosts say to each other. Arrays travel beside these headers, never in them.

Every request carries the term the client believes the host to have, and the attempt it belongs to. Every reply carries
the term under which it was given: a reply of another term than the client's says nothing and is ignored.
"""

from __future__ import annotations

from typing import NamedTuple

from heterps.protocol.keys import BatchKey

__all__ = ["FAR", "Acked", "Advance", "Ask", "Granted", "Pull", "Push", "Refused", "Reply", "Request", "Seen"]

FAR = 1 << 62
"""A batch or step number beyond every real one."""


class Ask(NamedTuple):
    """Where does this Split (Sync: this lane) stand? Also fences all earlier attempts at the Split (not in Sync)."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    floor: tuple[int, int] = (0, 0)


class Pull(NamedTuple):
    """Read rows for a batch. In Sync it also says: all pushes of earlier steps of this lane are acknowledged."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    step: int


class Push(NamedTuple):
    """Gradients of ``batches`` batches from ``key`` on."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    step: int
    batches: int


class Advance(NamedTuple):
    """Sync: the lane's next step is this one (of this pass); all its pushes of earlier steps are acknowledged."""

    term: int
    attempt: int
    key: BatchKey
    lane: int
    step: int


Request = Ask | Pull | Push | Advance


class Seen(NamedTuple):
    """Answer to Ask: every batch (Sync: step) below ``low`` has arrived, none from ``top`` on has."""

    term: int
    low: int
    top: int


class Granted(NamedTuple):
    """Answer to Pull: the rows come with it."""

    term: int


class Acked(NamedTuple):
    """Answer to Push and Advance: done, now or earlier, on every replica."""

    term: int


class Refused(NamedTuple):
    """The term does not fit (``fenced`` False) or a later attempt at the Split is under way (``fenced`` True)."""

    term: int
    fenced: bool = False


Reply = Seen | Granted | Acked | Refused
