"""What travels beside the protocol's headers: ids and rows, gradients.

In one process payloads are passed as they are, buffers included. Between processes they become the arrays of a message
(:mod:`heterps.runtime.wire.packing`). A buffer given to a call belongs to the receiver until the reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from heterps.runtime.batch.landing import Landing
from heterps.runtime.batch.message_memory import AnswerRoom
from heterps.tables import FollowedRows, Moment, RowGradients
from heterps.tables.on_device.lane_sums import sum_there

__all__ = ["Pulled", "PushedGradients", "Refreshed", "StoredDense", "Wanted", "bytes_in", "sum_pushed"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]


@dataclass(eq=False)
class Wanted:
    """What a Pull asks one host for.

    ``ids`` by group, each id once; ``out`` where the rows go (a buffer of the caller's, made by the receiver if None);
    ``dense`` where the host's dense parameters go, None if they are not wanted; ``reader`` who will follow what others
    change from then on, empty if nobody; where it follows already, it wants to hear what changed ``since``. ``lent``:
    the batch's seed, if the stage holder is to have the rows ready for the stages that compute with them, and none are
    wanted here. ``slots``: by group, of how many of the first ids the optimiser's slots are wanted, too;
    ``dense_slots``: those of the dense parameters. ``hints``: whether it is of use to know where the rows stand.
    ``landing``: as long as it is open, ``out`` and ``dense`` may be written to. ``room``: where they are made if they
    were not given.
    """

    ids: Mapping[str, U64]
    out: Mapping[str, F32] = field(default_factory=dict)
    dense: F32 | None = None
    train: bool = True
    reader: str = ""
    lent: int | None = None
    slots: Mapping[str, int] = field(default_factory=dict)
    dense_slots: bool = False
    hints: bool = True
    landing: Landing = field(default_factory=Landing)
    since: Moment | None = None
    room: AnswerRoom = field(default_factory=AnswerRoom)


@dataclass(eq=False)
class Pulled:
    """Answer to Wanted: rows by group, where they stand (a hint for the push), the host's version, and the moment from
    which on a reader follows; optimiser slots, where they were wanted. Every batch of the Split before ``low`` is in
    it, as the grant says. ``news``: what a reader that follows already wanted to hear; the rows are no older.
    """

    values: Mapping[str, F32]
    rows: Mapping[str, U32]
    version: int
    dense: F32 | None = None
    moment: Moment | None = None
    slots: Mapping[str, F32] = field(default_factory=dict)
    dense_slots: F32 | None = None
    low: int = 0
    news: Refreshed | None = None


@dataclass(eq=False)
class PushedGradients:
    """What a Push brings one host: summed row gradients by group, a flat dense gradient, and what to count.

    ``skipped`` counts rows that the sender left as they are; one with rows of its own is ``reader`` and has heard of
    changes up to ``since``. ``kept`` are seeds of batches of which a stage has left gradients with the host, dense ones
    and those of rows that were lent: they belong to this push.
    """

    rows: Mapping[str, RowGradients]
    dense: F32 | None = None
    samples: int = 0
    loss: float = 0.0
    skipped: int = 0
    reader: str = ""
    since: Moment | None = None
    kept: tuple[int, ...] = ()

    def copy(self) -> PushedGradients:
        """Return the same in arrays of its own."""
        dense = None if self.dense is None else self.dense.copy()
        return replace(self, rows={name: _copied(g) for name, g in self.rows.items()}, dense=dense)


@dataclass(eq=False)
class Refreshed:
    """What a reader is told: what changed since it last heard, and the host's dense parameters.

    ``known`` is False where the host cannot say what changed; it can from ``moment`` on.
    """

    rows: Mapping[str, FollowedRows]
    version: int
    moment: Moment
    known: bool
    dense: F32 | None = None


@dataclass(eq=False)
class StoredDense:
    """What an all-reduce group gives one host to keep: its parameters and their optimiser slots, flat."""

    values: F32
    slots: F32

    def copy(self) -> StoredDense:
        """Return the same in arrays of its own."""
        return StoredDense(self.values.copy(), self.slots.copy())


def sum_pushed(lanes: Sequence[PushedGradients]) -> PushedGradients:
    """Return what the lanes of a step bring together, added in their order."""
    total = lanes[0].dense
    for lane in lanes[1:]:
        total = None if total is None or lane.dense is None else total + lane.dense
    names = {name: None for lane in lanes for name in lane.rows}  # some come with the last batch of a range only
    return PushedGradients(
        {name: sum_there([lane.rows[name] for lane in lanes if name in lane.rows]) for name in names},
        total,
        sum(lane.samples for lane in lanes),
        sum(lane.loss for lane in lanes),
        sum(lane.skipped for lane in lanes),
    )


def bytes_in(payload: Wanted | PushedGradients | Pulled | Refreshed | None, half: bool = False) -> int:
    """Return the bytes of the arrays that travel; ``half``: values do as float16."""
    return _all_bytes(payload) - (_value_bytes(payload) // 2 if half else 0)


def _value_bytes(payload: Wanted | PushedGradients | Pulled | Refreshed | None) -> int:
    """Return the bytes of rows, parameters and gradients that may be rounded on their way."""
    match payload:
        case PushedGradients():
            values = [gradients.values for gradients in payload.rows.values()]
        case Pulled():
            values = list(payload.values.values())
        case _:
            return 0
    return sum(array.nbytes for array in (*values, payload.dense) if array is not None)


def _all_bytes(payload: Wanted | PushedGradients | Pulled | Refreshed | None) -> int:
    match payload:
        case Wanted():
            return sum(ids.nbytes for ids in payload.ids.values())
        case PushedGradients():
            arrays = [
                getattr(g, name) for g in payload.rows.values() for name in ("ids", "values", "rows", "show", "click")
            ]
        case Pulled():
            arrays = [*payload.values.values(), *payload.rows.values(), *payload.slots.values(), payload.dense_slots]
            news = payload.news.rows.values() if payload.news is not None else ()
            arrays += [array for rows in news for array in rows]
        case Refreshed():
            arrays = [array for rows in payload.rows.values() for array in rows]
        case None:
            return 0
    return sum(array.nbytes for array in (*arrays, payload.dense) if array is not None)


def _copied(g: RowGradients) -> RowGradients:
    return RowGradients(
        g.ids.copy(),
        g.values.copy(),
        None if g.rows is None else g.rows.copy(),
        None if g.show is None else g.show.copy(),
        None if g.click is None else g.click.copy(),
        g.version,
    )
