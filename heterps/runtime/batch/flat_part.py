"""Some pieces of a flat vector, one behind the other: what one holder has of the dense parameters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["FlatPart"]

F32 = npt.NDArray[np.float32]


class FlatPart:
    """Pieces of a flat vector in order; pieces that touch are one. One piece is taken as a view, several are copied."""

    def __init__(self, spans: Iterable[slice]) -> None:
        self.spans: list[slice] = []
        for span in spans:
            if self.spans and self.spans[-1].stop == span.start:
                self.spans[-1] = slice(self.spans[-1].start, span.stop)
            elif span.stop > span.start:
                self.spans.append(span)
        self.size = sum(span.stop - span.start for span in self.spans)

    @property
    def is_view(self) -> bool:
        """Whether what is taken shares memory with the vector."""
        return len(self.spans) <= 1

    def take(self, flat: F32) -> F32:
        """Return the pieces."""
        if self.is_view:
            return flat[self.spans[0]] if self.spans else flat[:0]
        return np.concatenate([flat[span] for span in self.spans])

    def room(self, flat: F32) -> F32:
        """Return where the pieces go: into the vector itself, or to room of their own from where :meth:`put` copies."""
        return self.take(flat) if self.is_view else np.empty(self.size, np.float32)

    def put(self, flat: F32, pieces: F32) -> None:
        """Copy pieces to where they belong, unless they are there."""
        if not self.is_view:
            self.copy(flat, pieces)

    def copy(self, flat: F32, pieces: F32) -> None:
        """Copy pieces to where they belong."""
        at = 0
        for span in self.spans:
            flat[span] = pieces[at : at + span.stop - span.start]
            at += span.stop - span.start
