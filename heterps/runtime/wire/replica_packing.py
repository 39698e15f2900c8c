"""How what goes from a shard host to its backup lies in a message: rows, the state that belongs to them, requests.

Both ends stand side by side, as in :mod:`heterps.runtime.wire.packing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.protocol.host.lanes import Lanes
from heterps.protocol.host.window import Window
from heterps.protocol.words.decisions import Confirm, Fill, Forward, Snapshot
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Push, Request, StoreGroup
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.payload import PushedGradients, StoredDense
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_request, unpack_header, unpack_request
from heterps.tables.live.twin import SomeRows

__all__ = [
    "Filling",
    "Forwarded",
    "pack_confirm",
    "pack_fill",
    "pack_forwards",
    "pack_some_rows",
    "unpack_confirm",
    "unpack_fill",
    "unpack_forwards",
    "unpack_some_rows",
]

F32 = npt.NDArray[np.float32]
Arrays = list[npt.NDArray[Any]]


@dataclass(eq=False)
class Forwarded:
    """A forwarded request and the gradients that came with it; none where the primary did not need them."""

    forward: Forward
    payload: PushedGradients | StoredDense | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        if self.payload is None:
            return 0
        if isinstance(self.payload, StoredDense):
            return self.payload.values.nbytes + self.payload.slots.nbytes
        dense = 0 if self.payload.dense is None else self.payload.dense.nbytes
        return dense + sum(rows.ids.nbytes + rows.values.nbytes for rows in self.payload.rows.values())


@dataclass(eq=False)
class Filling:
    """What a backup begins with, beside its rows: ``kept`` are pushes that wait for their step."""

    fill: Fill
    version: int
    counts: Counts
    dense: F32
    slots: F32
    kept: Mapping[Push, PushedGradients]


def pack_some_rows(some: SomeRows) -> Message:
    """Lay rows out for the wire."""
    head = {"group": some.group, "columns": list(some.rows), "anew": some.anew}
    return Message(head, [some.deleted, *some.rows.values()])


def unpack_some_rows(message: Message) -> SomeRows:
    """Inverse of :func:`pack_some_rows`."""
    deleted, *columns = message.arrays
    rows = dict(zip(message.head["columns"], columns, strict=True))
    return SomeRows(message.head["group"], rows, deleted, message.head["anew"])


def pack_fill(filling: Filling, primary: int) -> Message:
    """Lay the beginning of a backup out for the wire."""
    fill, arrays = filling.fill, [filling.dense, filling.slots]
    head = {
        "primary": primary,
        "backup": fill.backup,
        "term": fill.term,
        "seq": fill.seq,
        "window": fill.snapshot.window.to_json(),
        "frontier": fill.snapshot.lanes.to_json(),
        "batches": [batch and list(batch) for batch in fill.snapshot.lanes.batch],
        "fences": [[*stream, attempt] for stream, attempt in fill.snapshot.fences.items()],
        "owned": list(fill.snapshot.owned),
        "line": fill.snapshot.line,
        "version": filling.version,
        "counts": asdict(filling.counts),
        "kept": [_packed(push, gradients, arrays) for push, gradients in filling.kept.items()],
    }
    return Message(head, arrays)


def unpack_fill(message: Message) -> tuple[Filling, int]:
    """Inverse of :func:`pack_fill`; the arrays are views of the receive buffer."""
    head, arrays = message.head, list(message.arrays)
    dense, slots = arrays.pop(0), arrays.pop(0)
    kept: dict[Push, Any] = {}
    for told in head["kept"]:
        push, gradients = _unpacked(told, arrays)
        assert isinstance(push, Push)
        kept[push] = gradients
    lanes = Lanes.from_json(head["frontier"])
    lanes.batch = [batch and BatchKey(*batch) for batch in head["batches"]]
    for push in kept:
        lanes.staged.setdefault((push.key.pass_, push.step), {})[push.lane] = push
    fences = {(a, b): attempt for a, b, attempt in head["fences"]}
    snapshot = Snapshot(Window.from_json(head["window"]), lanes, fences, tuple(head["owned"]), head["line"])
    fill = Fill(head["backup"], head["term"], head["seq"], snapshot)
    return Filling(fill, head["version"], Counts(**head["counts"]), dense, slots, kept), head["primary"]


def pack_forwards(forwards: Sequence[Forwarded], primary: int) -> Message:
    """Lay requests out for the wire, in order."""
    arrays: Arrays = []
    told = [
        {
            "seq": each.forward.seq,
            "term": each.forward.term,
            "request": _packed(each.forward.request, each.payload, arrays),
        }
        for each in forwards
    ]
    return Message({"primary": primary, "backup": forwards[0].forward.backup, "forwards": told}, arrays)


def unpack_forwards(message: Message) -> tuple[list[Forwarded], int]:
    """Inverse of :func:`pack_forwards`; the arrays are views of the receive buffer."""
    head, arrays = message.head, list(message.arrays)
    found = []
    for told in head["forwards"]:
        request, payload = _unpacked(told["request"], arrays)
        found.append(Forwarded(Forward(head["backup"], told["term"], told["seq"], request), payload))
    return found, head["primary"]


def pack_confirm(confirm: Confirm) -> Message:
    """Lay what a backup answers out for the wire."""
    return Message(dict(confirm._asdict()))


def unpack_confirm(message: Message) -> Confirm:
    """Inverse of :func:`pack_confirm`."""
    return Confirm(**{name: message.head[name] for name in Confirm._fields})


def _packed(
    request: Request | StoreGroup, payload: PushedGradients | StoredDense | None, arrays: Arrays
) -> dict[str, Any]:
    """Return the head of a request and add its arrays; rows are asked for by nobody here, only that they were."""
    packed = pack_request(request, payload)
    arrays += packed.arrays
    return {**packed.head, "arrays": len(packed.arrays), "bare": payload is None}


def _unpacked(told: Mapping[str, Any], arrays: Arrays) -> tuple[Request | StoreGroup, Any]:
    mine = [arrays.pop(0) for _ in range(told["arrays"])]
    if told["bare"]:
        return unpack_header(told), None
    return unpack_request(Message(told, mine))
