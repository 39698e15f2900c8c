"""What travels beside the protocol's headers: ids and rows, gradients, and how they lie in a message.

In one process payloads are passed as they are, buffers included. Between processes they become the arrays of a message.
A buffer given to a call belongs to the receiver until the reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.protocol.words import messages
from heterps.protocol.words.keys import BatchKey
from heterps.runtime.wire.message import Message
from heterps.tables import RowGradients

__all__ = ["Pulled", "PushedGradients", "Wanted", "pack_reply", "pack_request", "unpack_reply", "unpack_request"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]


@dataclass(eq=False)
class Wanted:
    """What a Pull asks one host for.

    ``ids`` by group, each id once; ``out`` where the rows go (a buffer of the caller's, made by the receiver if None);
    ``dense`` where the host's dense parameters go, None if they are not wanted.
    """

    ids: Mapping[str, U64]
    out: Mapping[str, F32] = field(default_factory=dict)
    dense: F32 | None = None
    train: bool = True


@dataclass(eq=False)
class Pulled:
    """Answer to Wanted: rows by group, where they stand (a hint for the push), and the host's version."""

    values: Mapping[str, F32]
    rows: Mapping[str, U32]
    version: int
    dense: F32 | None = None


@dataclass(eq=False)
class PushedGradients:
    """What a Push brings one host: summed row gradients by group, a flat dense gradient, and what to count."""

    rows: Mapping[str, RowGradients]
    dense: F32 | None = None
    samples: int = 0
    loss: float = 0.0


_REQUESTS = {kind.__name__: kind for kind in (messages.Ask, messages.Pull, messages.Push, messages.Advance)}
_REPLIES = {kind.__name__: kind for kind in (messages.Seen, messages.Granted, messages.Acked, messages.Refused)}
_HINTS = ("rows", "show", "click")


def _fields(message: messages.Request | messages.Reply) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in fields(message)}


def pack_request(request: messages.Request, payload: Wanted | PushedGradients | None) -> Message:
    """Lay a request and its payload out for the wire."""
    head: dict[str, Any] = {"kind": type(request).__name__, "request": _fields(request)}
    arrays: list[npt.NDArray[Any]] = []
    if isinstance(payload, Wanted):
        head |= {"groups": list(payload.ids), "dense": payload.dense is not None, "train": payload.train}
        arrays = list(payload.ids.values())
    elif isinstance(payload, PushedGradients):
        head |= {"samples": payload.samples, "loss": payload.loss, "dense": payload.dense is not None}
        head["groups"] = {name: _pack_rows(rows, arrays) for name, rows in payload.rows.items()}
        if payload.dense is not None:
            arrays.append(payload.dense)
    return Message(head, arrays)


def _pack_rows(rows: RowGradients, arrays: list[npt.NDArray[Any]]) -> list[Any]:
    given = [name for name in _HINTS if getattr(rows, name) is not None]
    arrays += [rows.ids, rows.values, *(getattr(rows, name) for name in given)]
    return [rows.version, given]


def unpack_request(message: Message) -> tuple[messages.Request, Wanted | PushedGradients | None]:
    """Inverse of :func:`pack_request`."""
    head, arrays = message.head, list(message.arrays)
    told = dict(head["request"], key=BatchKey(*head["request"]["key"]))
    if "floor" in told:
        told["floor"] = tuple(told["floor"])
    request = _REQUESTS[head["kind"]](**told)
    if head["kind"] == "Pull":
        dense = np.empty(0, np.float32) if head["dense"] else None
        ids = dict(zip(head["groups"], arrays, strict=True))
        return request, Wanted(ids, dense=dense, train=head["train"])
    if head["kind"] == "Push":
        rows = {name: _unpack_rows(told, arrays) for name, told in head["groups"].items()}
        return request, PushedGradients(rows, arrays.pop(0) if head["dense"] else None, head["samples"], head["loss"])
    return request, None


def _unpack_rows(told: Sequence[Any], arrays: list[npt.NDArray[Any]]) -> RowGradients:
    version, given = told
    ids, values = arrays.pop(0), arrays.pop(0)
    return RowGradients(ids, values, **{name: arrays.pop(0) for name in given}, version=version)


def pack_reply(reply: messages.Reply, payload: Pulled | None) -> Message:
    """Lay a reply and its payload out for the wire."""
    head: dict[str, Any] = {"kind": type(reply).__name__, "reply": _fields(reply)}
    if payload is None:
        return Message(head)
    head |= {"groups": list(payload.values), "version": payload.version, "dense": payload.dense is not None}
    arrays = [array for name in payload.values for array in (payload.values[name], payload.rows[name])]
    return Message(head, arrays + ([payload.dense] if payload.dense is not None else []))


def unpack_reply(message: Message, wanted: Wanted | None = None) -> tuple[messages.Reply, Pulled | None]:
    """Inverse of :func:`pack_reply`; rows are copied to the buffers that were given with the request."""
    head, arrays = message.head, list(message.arrays)
    reply = _REPLIES[head["kind"]](**head["reply"])
    if "version" not in head:
        return reply, None
    values, rows = {}, {}
    for name in head["groups"]:
        values[name], rows[name] = _into(wanted.out.get(name) if wanted else None, arrays.pop(0)), arrays.pop(0).copy()
    dense = _into(wanted.dense if wanted else None, arrays.pop(0)) if head["dense"] else None
    return reply, Pulled(values, rows, head["version"], dense)


def _into(out: F32 | None, array: F32) -> F32:
    if out is None or out.size < array.size:
        return array.copy()
    view = out[: len(array)]
    np.copyto(view, array)
    return view
