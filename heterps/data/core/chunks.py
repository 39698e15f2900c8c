"""Sources that get their rows as ready-made columns, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from heterps.data.core.batch import Column
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Source

__all__ = ["ChunkSource", "Columns"]

Columns = Mapping[str, Column]


class ChunkSource(Source):
    """Copy chunks of columns into batch buffers."""

    def __init__(self, chunks: Iterator[Columns]) -> None:
        self.chunks = chunks
        self.chunk: Columns = {}
        self.at = self.size = 0

    def _next(self, most: int) -> int:
        """Return how many rows of the current chunk to take, at most ``most``; 0 at the end."""
        while self.at >= self.size:
            chunk = next(self.chunks, None)
            if chunk is None:
                return 0
            self.chunk, self.at = chunk, 0
            self.size = len(next(iter(chunk.values())))
        return min(most, self.size - self.at)

    def fill(self, rows: RowBuffers, begin: int, end: int) -> int:
        """Copy the next rows."""
        row = begin
        while row < end and (take := self._next(end - row)):
            rows.put_columns(row, self.chunk, self.at, self.at + take)
            self.at += take
            row += take
        return row - begin

    def skip(self, count: int, scratch: RowBuffers) -> None:
        """Pass over rows without copying them."""
        while count > 0 and (take := self._next(count)):
            self.at += take
            count -= take

    def close(self) -> None:
        """End the iterator below."""
        close = getattr(self.chunks, "close", None)
        if close is not None:
            close()
