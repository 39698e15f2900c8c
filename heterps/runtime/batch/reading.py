"""The batches of one attempt, asked for by number."""

from __future__ import annotations

from collections.abc import Callable

from heterps.data import Batch
from heterps.data.core.read_ahead import Reader

__all__ = ["Reading"]


class Reading:
    """Batches from a number on.

    Parameters
    ----------
    read
        ``read(start)`` reads the Split from that batch on; None where there is nothing to read.
    start
        Where the attempt will begin unless hosts say otherwise: reading begins there at once.
    at_end
        Called once, when the last batch has been read and, as a rule, before it is asked for.
    """

    def __init__(
        self, read: Callable[[int], Reader] | None, start: int, at_end: Callable[[], None] | None = None
    ) -> None:
        self._read, self._at_end, self._position = read, at_end, start
        self._reader = read(start) if read is not None else None

    def batch(self, n: int) -> Batch | None:
        """Return batch ``n``, None if there is none; anywhere but behind the one before, reading begins anew."""
        if self._reader is None or self._read is None:
            return None
        if self._position != n:
            self._reader.close()
            self._reader, self._position = self._read(n), n
        batch = next(self._reader, None)
        self._position = n + 1
        tell = self._at_end if self._reader.ended else None
        if tell is not None:
            self._at_end = None
            tell()
        return batch

    @property
    def waiting(self) -> int:
        """How many batches are read and not asked for yet."""
        return 0 if self._reader is None else self._reader.waiting

    def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            self._reader.close()
