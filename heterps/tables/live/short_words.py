"""The words of rows without their waiting columns, and of the same rows with room for them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import numpy.typing as npt

from heterps.tables.live.row_layout import RowLayout, RowSegment

__all__ = ["ShortWords"]

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]


class ShortWords:
    """What stands where in short and in whole rows.

    Attributes
    ----------
    short
        The layout of short rows.
    columns
        Which columns of a whole row those of a short one are.
    segments
        Which segments.
    """

    def __init__(self, whole: RowLayout) -> None:
        self._whole, self.short = whole, whole.shortened()
        kept = [(k, segment) for k, segment in enumerate(whole.segments) if not segment.gated]
        self.segments: I64 = np.array([k for k, _ in kept], np.int64)
        self.columns: I64 = _numbers(range(s.column, s.column + s.n) for _, s in kept)
        pairs = list(zip((s for _, s in kept), self.short.segments, strict=True))
        self._there: I64 = _numbers([range(2), *(_slots(a) for a, _ in pairs), *_rest(whole)])
        self._here: I64 = _numbers([range(2), *(_slots(b) for _, b in pairs), *_rest(self.short)])
        self._blank = np.zeros(whole.stride, np.uint32)
        self._blank[whole.state :] = whole.template.view(np.uint32)

    def lengthened(self, words: U32) -> U32:
        """Return short rows as whole ones whose waiting columns have nothing yet."""
        out = np.tile(self._blank, (len(words), 1))
        out[:, self._there] = words[:, self._here]
        _values(self._whole, out)[:, self.columns] = _values(self.short, words)[:, : self.short.width]
        return out

    def shortened(self, words: U32) -> U32:
        """Return whole rows as short ones."""
        out = np.zeros((len(words), self.short.stride), np.uint32)
        out[:, self._here] = words[:, self._there]
        _values(self.short, out)[:, : self.short.width] = _values(self._whole, words)[:, self.columns]
        return out


def _numbers(ranges: Iterable[range]) -> I64:
    return np.array(list(chain.from_iterable(ranges)), np.int64)


def _slots(segment: RowSegment) -> range:
    return range(segment.slot, segment.slot + segment.rule.slots(segment.n))


def _rest(layout: RowLayout) -> list[range]:
    """Return counters and last use; a stamp belongs to where a row is."""
    out = [range(layout.counter, layout.counter + layout.n_counters)]
    return [*out, range(layout.tick, layout.tick + 1)] if layout.tick >= 0 else out


def _values(layout: RowLayout, words: U32) -> npt.NDArray[np.uint16] | U32:
    """Return the values of rows as their bits, to be read or written."""
    first, last = layout.value, layout.state
    return words[:, first:last].view(np.uint16) if layout.half else words[:, first:last]
