"""How what members of an all-reduce group say to each other and to shard hosts lies in a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.protocol.words.group import GroupState, Relayed, Want
from heterps.protocol.words.messages import Push
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_request, unpack_header

__all__ = [
    "pack_part",
    "pack_relay",
    "pack_state",
    "unpack_part",
    "unpack_relay",
    "unpack_state",
    "unpack_want",
]

F32 = npt.NDArray[np.float32]


def pack_relay(relayed: Relayed, part: F32 | None) -> Message:
    """Lay out what a lane said, and the receiver's segment of its gradient; that is sent once."""
    head = {**pack_request(relayed.request, None).head, "term": relayed.term, "home": relayed.home}
    return Message(head, [] if part is None else [part])


def unpack_relay(message: Message) -> tuple[Relayed, F32 | None]:
    """Inverse of :func:`pack_relay`."""
    relayed = Relayed(message.head["term"], message.head["home"], unpack_header(message.head))
    return relayed, message.arrays[0] if message.arrays else None


def pack_part(push: Push, bucket: int, part: F32) -> Message:
    """Lay out the receiver's share of one bucket of a gradient, ahead of its push."""
    return Message({**pack_request(push, None).head, "bucket": bucket}, [part])


def unpack_part(message: Message) -> tuple[Push, int, F32]:
    """Inverse of :func:`pack_part`."""
    push = unpack_header(message.head)
    assert isinstance(push, Push)
    return push, message.head["bucket"], message.arrays[0]


def unpack_want(message: Message) -> Want:
    """Read the question for a sum."""
    pass_, step = message.head["position"]
    return Want(message.head["term"], (pass_, step))


def pack_state(state: GroupState, version: int, values: F32, slots: F32) -> Message:
    """Lay out parameters, their optimiser slots, and where lanes stand."""
    return Message({"state": state._asdict(), "version": version}, [values, slots])


def unpack_state(head: Mapping[str, Any]) -> GroupState:
    """Read where lanes stand."""
    told = head["state"]
    pass_, step = told["applied"]
    frontier = tuple((int(p), int(s)) for p, s in told["frontier"])
    return GroupState((pass_, step), frontier, tuple((int(lane), int(a)) for lane, a in told["fences"]))
