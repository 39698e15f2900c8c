"""Words of rows, values and optimiser slots, between a RowGroup and a table on a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from heterps.tables.live.group import RowGroup
from heterps.tables.live.partition import RowPartition

__all__ = ["give_words", "take_words"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


def take_words(group: RowGroup, ids: U64) -> F32:
    """Copy the words of distinct ids; absent ones get their rows, as in a pull."""
    layout = group.layout
    words = np.empty((len(ids), layout.width + layout.slots), np.float32)
    for part, at, rows in _places(group, ids):
        with part.lock:
            words[at] = part.words.view(np.float32)[rows, layout.value : layout.value + words.shape[1]]
    return words


def give_words(group: RowGroup, ids: U64, words: F32) -> None:
    """Set the words of distinct ids; a cut that is being written keeps what they were, readers hear of the change."""
    layout = group.layout
    for part, at, rows in _places(group, ids):
        with part.lock:
            part.set_columns(rows, slice(0, layout.width), words[at, : layout.width])
            if layout.slots:
                part.set_slots(rows, slice(layout.state, layout.state + layout.slots), words[at, layout.width :])


def _places(group: RowGroup, ids: U64) -> Iterator[tuple[RowPartition, I32, I64]]:
    """Yield each partition with the positions of its ids and their rows."""
    if not len(ids):
        return
    rows = group.create(ids)
    order, bounds = group.split(ids)
    for p, part in enumerate(group.partitions):
        at = order[bounds[p] : bounds[p + 1]].copy()
        yield part, at, rows[at].astype(np.int64)
