"""Words of rows, values and optimiser slots, between a RowGroup and a table on a device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heterps.tables.live.group import RowGroup

__all__ = ["give_words", "take_words"]

U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


def take_words(group: RowGroup, ids: U64) -> F32:
    """Copy the words of distinct ids; absent ones get their rows, as in a pull."""
    layout = group.layout
    words = np.empty((len(ids), layout.width + layout.slots), np.float32)
    for part, at, rows in group.made(ids):
        words[at] = part.words_of(rows).view(np.float32)[:, layout.value : layout.value + words.shape[1]]
    return words


def give_words(group: RowGroup, ids: U64, words: F32) -> None:
    """Set the words of distinct ids; a cut that is being written keeps what they were, readers hear of the change."""
    layout = group.layout
    for part, at, rows in group.made(ids):
        part.set_columns(rows, slice(0, layout.width), words[at, : layout.width])
        if layout.slots:
            part.set_slots(rows, slice(layout.state, layout.state + layout.slots), words[at, layout.width :])
