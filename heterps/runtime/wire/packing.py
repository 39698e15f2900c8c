"""How values lie in a message: requests and replies of the protocol with their payloads, what crosses between stages.

Whatever goes through a socket is laid out and read here, both ends side by side; the rest of the runtime sees values.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import HeterpsError, RunError
from heterps.kernels.ops.rows import Lists, Rows
from heterps.protocol.words import messages
from heterps.protocol.words.keys import BatchKey
from heterps.ragged import Ragged
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.message_memory import AnswerRoom
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, StoredDense, Wanted
from heterps.runtime.wire.halving import halved, made_whole
from heterps.runtime.wire.message import Message
from heterps.tables import FollowedRows, Moment, RowGradients

__all__ = [
    "pack_dense",
    "pack_error",
    "pack_feeds",
    "pack_outcome",
    "pack_read",
    "pack_reply",
    "pack_request",
    "pack_rows",
    "pack_step",
    "unpack_dense",
    "unpack_error",
    "unpack_feeds",
    "unpack_header",
    "unpack_outcome",
    "unpack_read",
    "unpack_reply",
    "unpack_request",
    "unpack_rows",
    "unpack_step",
]

F32 = npt.NDArray[np.float32]
Arrays = list[npt.NDArray[Any]]
_KINDS = (messages.Ask, messages.Pull, messages.Push, messages.Advance, messages.StoreGroup)
_REQUESTS = {kind.__name__: kind for kind in _KINDS}
_REPLIES = {kind.__name__: kind for kind in (messages.Seen, messages.Granted, messages.Acked, messages.Refused)}
_HINTS = ("rows", "show", "click")


_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in (*_REQUESTS.values(), *_REPLIES.values())}


def _fields(message: messages.Request | messages.StoreGroup | messages.Reply) -> dict[str, Any]:
    return {name: getattr(message, name) for name in _NAMES[type(message)]}


def pack_request(
    request: messages.Request | messages.StoreGroup,
    payload: Wanted | PushedGradients | StoredDense | None,
    half: bool = False,
) -> Message:
    """Lay a request and its payload out for the wire; ``half``: values travel as float16, in the answer, too."""
    head: dict[str, Any] = {"kind": type(request).__name__, "request": _fields(request)}
    arrays: list[npt.NDArray[Any]] = []
    if isinstance(payload, Wanted):
        head |= {"groups": list(payload.ids), "dense": payload.dense is not None, "train": payload.train}
        head |= {"reader": payload.reader, "since": payload.since, "lent": payload.lent, "hints": payload.hints}
        head |= {"slots": dict(payload.slots), "dense_slots": payload.dense_slots, "half": half}
        arrays = list(payload.ids.values())
    elif isinstance(payload, PushedGradients):
        head |= {"samples": payload.samples, "loss": payload.loss, "dense": payload.dense is not None}
        head |= {"skipped": payload.skipped, "reader": payload.reader, "since": payload.since, "kept": payload.kept}
        powers: list[int] | None = [] if half else None
        head["groups"] = {name: _pack_rows(rows, arrays, powers) for name, rows in payload.rows.items()}
        if payload.dense is not None:
            arrays.append(halved(payload.dense, powers))
        head["powers"] = powers or ()
    elif isinstance(payload, StoredDense):
        arrays = [payload.values, payload.slots]
    return Message(head, arrays)


def _pack_rows(rows: RowGradients, arrays: list[npt.NDArray[Any]], powers: list[int] | None) -> list[Any]:
    given = [name for name in _HINTS if getattr(rows, name) is not None]
    arrays += [rows.ids, halved(rows.values, powers), *(getattr(rows, name) for name in given)]
    return [rows.version, given]


def unpack_request(message: Message) -> tuple[Any, Wanted | PushedGradients | StoredDense | None]:
    """Inverse of :func:`pack_request`."""
    head, arrays = message.head, list(message.arrays)
    request = unpack_header(head)
    if head["kind"] == "Pull":
        dense = np.empty(0, np.float32) if head["dense"] else None
        ids = dict(zip(head["groups"], arrays, strict=True))
        more = {name: head[name] for name in ("train", "reader", "lent", "slots", "dense_slots", "hints")}
        return request, Wanted(ids, dense=dense, since=_moment(head["since"]), room=_room(message), **more)
    if head["kind"] == "Push":
        powers = iter(head["powers"])
        rows = {name: _unpack_rows(told, arrays, powers) for name, told in head["groups"].items()}
        dense = made_whole(arrays.pop(0), powers) if head["dense"] else None
        counted = (head["samples"], head["loss"], head["skipped"])
        since, kept = _moment(head["since"]), tuple(head["kept"])
        return request, PushedGradients(rows, dense, *counted, head["reader"], since, kept)
    return request, StoredDense(*arrays) if head["kind"] == "StoreGroup" else None


def _room(message: Message) -> AnswerRoom:
    return AnswerRoom() if message.room is None else message.room


def unpack_header(head: Mapping[str, Any]) -> Any:
    """Return the request that a head tells of, without its payload."""
    told = dict(head["request"])
    if "key" in told:
        told["key"] = BatchKey(*told["key"])
    if "floor" in told:
        told["floor"] = tuple(told["floor"])
    return _REQUESTS[head["kind"]](**told)


def _unpack_rows(told: Sequence[Any], arrays: list[npt.NDArray[Any]], powers: Iterator[int]) -> RowGradients:
    version, given = told
    ids, values = arrays.pop(0), made_whole(arrays.pop(0), powers)
    return RowGradients(ids, values, **{name: arrays.pop(0) for name in given}, version=version)


def _moment(told: Any) -> Moment | None:
    return None if told is None else Moment.from_json(told)


def pack_reply(reply: messages.Reply, payload: Pulled | Refreshed | None, half: bool = False) -> Message:
    """Lay a reply and its payload out for the wire; ``half``: values that were pulled travel as float16."""
    head: dict[str, Any] = {"kind": type(reply).__name__, "reply": _fields(reply)}
    if payload is None:
        return Message(head)
    head["moment"] = payload.moment
    if isinstance(payload, Refreshed):
        head |= {"refreshed": list(payload.rows), "version": payload.version, "known": payload.known}
        changed: Arrays = [array for rows in payload.rows.values() for array in rows]
        return Message(head, changed + ([payload.dense] if payload.dense is not None else []))
    head |= {"groups": list(payload.values), "version": payload.version, "dense": payload.dense is not None}
    head |= {"hints": list(payload.rows), "slots": list(payload.slots), "dense_slots": payload.dense_slots is not None}
    powers: list[int] | None = [] if half else None
    values = [halved(values, powers) for values in payload.values.values()]
    dense = [] if payload.dense is None else [halved(payload.dense, powers)]
    dense += [] if payload.dense_slots is None else [payload.dense_slots]
    head["powers"] = powers or ()
    arrays: Arrays = [*values, *payload.rows.values(), *payload.slots.values(), *dense]
    if payload.news is None:
        return Message(head, arrays)
    told = pack_reply(reply, payload.news)
    return Message({**head, "news": told.head}, [*arrays, *told.arrays])


def unpack_reply(message: Message, wanted: Wanted | None = None) -> tuple[messages.Reply, Pulled | Refreshed | None]:
    """Inverse of :func:`pack_reply`; rows go to the buffers that were given with the request, if they still may."""
    head, arrays = message.head, list(message.arrays)
    reply = _REPLIES[head["kind"]](**head["reply"])
    if "version" not in head:
        return reply, None
    if "refreshed" in head:
        return reply, _unpack_refreshed(head, [array.copy() for array in arrays])  # the receive buffer is used again
    wanted = wanted or Wanted({})
    with wanted.landing as is_open:
        return reply, _unpack_pulled(head, arrays, wanted) if is_open else None


def _unpack_pulled(head: Mapping[str, Any], arrays: Arrays, wanted: Wanted) -> Pulled:
    powers = iter(head["powers"])
    values = {name: _into(wanted.out.get(name), arrays.pop(0), powers) for name in head["groups"]}
    rows, slots = ({name: arrays.pop(0).copy() for name in head[told]} for told in ("hints", "slots"))
    dense = _into(wanted.dense, arrays.pop(0), powers) if head["dense"] else None
    dense_slots = arrays.pop(0).copy() if head["dense_slots"] else None
    news = _unpack_refreshed(head["news"], [array.copy() for array in arrays]) if "news" in head else None
    return Pulled(values, rows, head["version"], dense, _moment(head["moment"]), slots, dense_slots, news=news)


def _unpack_refreshed(head: Mapping[str, Any], arrays: Arrays) -> Refreshed:
    rows = {name: FollowedRows(arrays.pop(0), arrays.pop(0), arrays.pop(0)) for name in head["refreshed"]}
    moment = Moment.from_json(head["moment"])
    return Refreshed(rows, head["version"], moment, head["known"], arrays.pop(0) if arrays else None)


def _into(out: F32 | None, array: npt.NDArray[Any], powers: Iterator[int]) -> F32:
    if array.dtype == np.float16:
        return made_whole(array, powers, out)
    if out is None or out.size < array.size:
        return array.copy()
    view = out[: len(array)]
    np.copyto(view, array)
    return view


def pack_read(wanted: Wanted) -> Message:
    """Lay a read without training out for the wire."""
    return Message({"groups": list(wanted.ids), "dense": wanted.dense is not None}, list(wanted.ids.values()))


def unpack_read(message: Message) -> Wanted:
    """Inverse of :func:`pack_read`."""
    ids = dict(zip(message.head["groups"], message.arrays, strict=True))
    dense = np.empty(0, np.float32) if message.head["dense"] else None
    return Wanted(ids, dense=dense, train=False, room=_room(message))


def pack_dense(mark: str, values: F32 | None) -> Message:
    """Lay dense parameters out for the wire; none where the caller has them."""
    return Message({"mark": mark}, [] if values is None else [values])


def unpack_dense(message: Message) -> tuple[str, F32 | None]:
    """Inverse of :func:`pack_dense`; a view of the receive buffer."""
    return message.head["mark"], message.arrays[0] if message.arrays else None


def pack_rows(rows: Mapping[str, npt.NDArray[Any]], **head: Any) -> Message:
    """Lay arrays by group out for the wire: ids of rows that are asked for, or their values."""
    return Message({"groups": list(rows), **head}, list(rows.values()))


def unpack_rows(message: Message) -> dict[str, npt.NDArray[Any]]:
    """Inverse of :func:`pack_rows`; views of the receive buffer."""
    return dict(zip(message.head["groups"], message.arrays, strict=True))


def pack_feeds(feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Return what the head must say about the tensors, and their arrays.

    Ids come last: they stay on the host, and what goes to a device lies side by side before them.
    """
    arrays: Arrays = []
    told = {name: _pack(value, arrays) for name, value in feeds.items()}
    rows = [value.ids for value in feeds.values() if isinstance(value, Rows) and value.ids is not None]
    return told, arrays + rows


def _pack(value: Any, arrays: Arrays) -> dict[str, Any]:
    if isinstance(value, Rows):
        ragged = [offsets is not None for offsets in value.offsets]
        arrays += [value.values, *value.inverse, *(o for o in value.offsets if o is not None)]
        return {"form": "rows", "columns": len(value.inverse), "ragged": ragged, "ids": value.ids is not None}
    if isinstance(value, Ragged | Lists):
        arrays += [value.values, value.offsets]
        return {"form": "ragged"}
    arrays.append(np.asarray(value))
    return {"form": "dense"}


def unpack_feeds(told: Mapping[str, Mapping[str, Any]], arrays: Arrays) -> dict[str, Any]:
    """Inverse of :func:`pack_feeds`; takes its arrays from the front of the list."""
    found = {name: _unpack(form, arrays) for name, form in told.items()}
    for name, form in told.items():
        if form.get("ids"):
            found[name] = replace(found[name], ids=arrays.pop(0))
    return found


def _unpack(form: Mapping[str, Any], arrays: Arrays) -> Any:
    if form["form"] == "dense":
        return arrays.pop(0)
    if form["form"] == "ragged":
        return Lists(arrays.pop(0), arrays.pop(0))
    values = arrays.pop(0)
    inverse = tuple(arrays.pop(0) for _ in range(form["columns"]))
    offsets = tuple(arrays.pop(0) if ragged else None for ragged in form["ragged"])
    return Rows(values, inverse, offsets)


def pack_step(seed: int, feeds: Mapping[str, Any], term: int | None = None) -> Message:
    """Lay a call to ``step`` out for the wire."""
    told, arrays = pack_feeds(feeds)
    return Message({"seed": seed, "feeds": told, "term": term}, arrays)


def unpack_step(message: Message) -> tuple[int, dict[str, Any], int | None]:
    """Inverse of :func:`pack_step`."""
    head = message.head
    return head["seed"], unpack_feeds(head["feeds"], list(message.arrays)), head["term"]


def pack_outcome(outcome: StageOutcome) -> Message:
    """Lay an outcome out for the wire."""
    stages = sorted(outcome.dense)
    arrays = [*outcome.gradients.values(), *(outcome.dense[i] for i in stages), np.asarray(outcome.prediction)]
    head = {"gradients": list(outcome.gradients), "stages": stages, "loss": outcome.loss, "kept": outcome.kept}
    return Message(head, arrays)


def unpack_outcome(message: Message) -> StageOutcome:
    """Inverse of :func:`pack_outcome`; copies, as the receive buffer is used again."""
    head, arrays = message.head, [array.copy() for array in message.arrays]
    gradients = {name: arrays.pop(0) for name in head["gradients"]}
    dense = {i: arrays.pop(0) for i in head["stages"]}
    return StageOutcome(gradients, dense, head["loss"], arrays.pop(0), tuple(head["kept"]))


def pack_error(error: Exception) -> Message:
    """Lay out what a call raised."""
    there = "".join(traceback.format_exception(error))
    return Message({"_error": type(error).__name__, "_message": str(error), "_traceback": there})


def unpack_error(message: Message) -> Exception | None:
    """Return what a call raised there, None if it did not; an error of ours by its name, any other as a RunError."""
    head = message.head
    if "_error" not in head:
        return None
    name, text = str(head["_error"]), str(head.get("_message"))
    kind = next((kind for kind in _kinds(HeterpsError) if kind.__name__ == name), None)
    error = RunError(f"{name}: {text}") if kind is None else kind(text)
    error.add_note(f"There:\n{head.get('_traceback', '')}")
    return error


def _kinds(kind: type[HeterpsError]) -> Iterator[type[HeterpsError]]:
    """All our errors, wherever they are defined: one that is forgotten here would change its meaning on the way."""
    yield kind
    for derived in kind.__subclasses__():
        yield from _kinds(derived)
