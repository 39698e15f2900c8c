"""Blocks of whole lines, and the reading loop that all line formats share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data.core.bad import SHOWN, BadRow, BadRows
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Source
from heterps.data.core.files import is_compressed, open_bytes
from heterps.data.core.split import Piece
from heterps.errors import DataError

__all__ = ["BLOCK_BYTES", "LineSource", "Lines", "line_number"]

BLOCK_BYTES = 1 << 20
# Compiled loops look at up to 64 bytes at a time, from any byte.
PAD = 80
_NEWLINE = 10


class Lines:
    """Blocks of whole lines of one piece, in one reused buffer.

    A line belongs to the piece that holds its first byte, so pieces of a file cover each line once whatever the cut.
    After :meth:`refill` the bytes ``buffer[pos:end]`` are whole lines and ``buffer[end - 1]`` is a newline (one is
    added to a last line without). ``buffer`` has spare bytes after ``end``: compiled loops may load whole words.
    """

    def __init__(self, piece: Piece, block: int = BLOCK_BYTES, opener: Callable[[str], Any] = open_bytes) -> None:
        self.piece, self.block = piece, block
        self._bytes = bytearray(block + PAD)
        self.buffer: npt.NDArray[np.uint8] = np.frombuffer(self._bytes, np.uint8)
        self.file = opener(piece.source)
        # A stream cannot be read again to number a line, so its lines are counted on the way.
        self.is_stream = opener is not open_bytes or is_compressed(piece.source)
        self.lines_before = 0
        self.pos = self.end = self.filled = 0
        self.at_eof = False
        self.too_long = -1
        self.limit = piece.end if piece.end >= 0 else 1 << 62
        self.origin = piece.begin
        if piece.begin > 0:
            self.origin = piece.begin - 1
            with ExitStack() as on_error:
                on_error.callback(self.close)
                self.file.seek(self.origin)
                self._fill()
                self._drop_line()
                on_error.pop_all()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def offset(self) -> int:
        """Position in the (decompressed) file of ``buffer[pos]``."""
        return self.origin + self.pos

    def refill(self) -> bool:
        """Bring the next lines in; False at the end of the piece."""
        self.pos = max(self.pos, self.end)
        if self.offset >= self.limit:
            return False
        self.end = self._last_line()
        while self.end == self.pos and not self.at_eof:
            if self.pos == 0 and self.filled == self.block:
                # One line fills the whole buffer: leave it to the caller to count, go on behind it.
                self.too_long = self.origin
                self._drop_line()
                return True
            self._fill()
            self.end = self._last_line()
        return self.end > self.pos

    def skip_while(self, takes: Callable[[bytes], bool]) -> None:
        """Move behind the next lines of those at hand, as long as they are taken."""
        while self.pos < self.end:
            stop = self._bytes.find(b"\n", self.pos)
            if not takes(bytes(self._bytes[self.pos : stop])):
                return
            self.pos = stop + 1

    def line_at(self, at: int) -> int:
        """Return the number of the line that starts at ``buffer[at]``; 0 if finding out would take too long."""
        if self.is_stream:
            return self.lines_before + self._bytes.count(b"\n", 0, at) + 1
        return line_number(self.piece.source, self.origin + at)

    def text_at(self, begin: int, end: int, reread: bool) -> bytes:
        """Return the bytes at ``buffer[begin:end]``, from the file if that can be: parsers unquote in place."""
        if self.is_stream or not reread:
            return bytes(self._bytes[begin:end])
        with open_bytes(self.piece.source) as file:
            file.seek(self.origin + begin)
            return bytes(file.read_exactly(end - begin))

    def _fill(self) -> None:
        if self.is_stream:
            self.lines_before += self._bytes.count(b"\n", 0, self.pos)
        keep = self.filled - self.pos
        self.buffer[:keep] = self.buffer[self.pos : self.filled].copy()
        self.origin += self.pos
        self.pos, self.end, self.filled = 0, 0, keep
        got = self.file.readinto(memoryview(self._bytes)[keep : self.block]) if keep < self.block else 0
        self.filled += got
        if got == 0:
            self.at_eof = True
            self._check_whole()
            if self.filled > 0 and self.buffer[self.filled - 1] != _NEWLINE:
                self.buffer[self.filled] = _NEWLINE
                self.filled += 1

    def _check_whole(self) -> None:
        """The piece was cut from the file's size: what ends before it was there when the run began."""
        end = self.origin + self.filled
        if end < self.piece.end:
            raise DataError(
                f"{self.piece.source} became shorter while it was read: it ends at byte {end}, it had {self.piece.end} "
                "or more; files must stay as they are during a run"
            )

    def _last_line(self) -> int:
        """Return the end of the last whole line in the buffer that this piece owns."""
        newest = self.limit - self.origin
        if newest < self.filled:
            # The last owned line starts before ``newest``: it ends at the first newline from newest - 1 on.
            found = self._bytes.find(b"\n", max(newest - 1, self.pos), self.filled)
            if found >= 0:
                return found + 1
            # It goes on behind the buffer: the lines before it are whole, and all of this piece.
        return max(self._bytes.rfind(b"\n", self.pos, self.filled) + 1, self.pos)

    def _drop_line(self) -> None:
        """Move behind the next newline."""
        while True:
            found = self._bytes.find(b"\n", self.pos, self.filled)
            if found >= 0:
                self.pos = self.end = found + 1
                return
            self.pos = self.end = self.filled
            if self.at_eof:
                return
            self._fill()


def line_number(path: str, offset: int, furthest: int = 1 << 30) -> int:
    """Return the number of the line at a byte offset by counting newlines before it; 0 if that would take too long."""
    if offset > furthest:
        return 0
    with open_bytes(path) as file:
        count, left = 1, offset
        while left > 0:
            block = file.read(min(left, 1 << 20))
            if not block:
                break
            count += block.count(b"\n")
            left -= len(block)
    return count


class LineSource(Source):
    """Pieces of text as rows; a format says how whole lines are parsed."""

    def __init__(
        self,
        pieces: tuple[Piece, ...],
        bad: BadRows,
        block: int = BLOCK_BYTES,
        opener: Callable[[str], Any] = open_bytes,
    ) -> None:
        self.todo = list(reversed(pieces))
        self.bad, self.block, self.opener = bad, block, opener
        self.lines: Lines | None = None
        self.done = 0  # good rows given by earlier calls of fill
        self._before = 0  # added to a row's number in the buffers: the good rows before it

    @abstractmethod
    def parse(self, lines: Lines, rows: RowBuffers, row: int, end: int) -> int:
        """Parse ``lines.buffer[lines.pos:lines.end]`` into rows ``row .. end``, moving ``pos``; return the next row."""

    def begin(self, lines: Lines) -> None:
        """Look at the start of a piece (a header, if it begins its file)."""
        return None

    def fill(self, rows: RowBuffers, begin: int, end: int) -> int:
        """Parse the next rows."""
        row = begin
        self._before = self.done - begin
        while row < end and self._refill(row):
            assert self.lines is not None
            row = self.parse(self.lines, rows, row, end)
        self.done += row - begin
        return row - begin

    def _refill(self, row: int) -> bool:
        while True:
            if self.lines is None:
                if not self.todo:
                    return False
                self.lines = Lines(self.todo.pop(), self.block, self.opener)
                self.begin(self.lines)
            if self.lines.pos < self.lines.end:
                return True
            if self.lines.refill():
                self._count_long_line(self.lines, row)
            else:
                self.close()

    def _count_long_line(self, lines: Lines, row: int) -> None:
        if lines.too_long >= 0:
            offset, lines.too_long = lines.too_long, -1
            reason = f"line longer than {self.block} bytes"
            line = lines.lines_before if lines.is_stream else line_number(lines.piece.source, offset)
            self.bad.add(BadRow(lines.piece.source, line, offset, reason, "", self._before + row))

    def count_bad(self, begin: int, end: int, detail: str, reason: str, row: int) -> None:
        """Count the line ``buffer[begin:end]`` as bad; it would have been row ``row`` of what is being filled."""
        assert self.lines is not None
        lines, shown = self.lines, len(self.bad.first) < SHOWN
        text = lines.text_at(begin, min(end - 1, begin + 80), reread=shown).decode("utf-8", "backslashreplace")
        line = lines.line_at(begin) if shown else 0
        place = BadRow(lines.piece.source, line, lines.origin + begin, detail, text, self._before + row)
        self.bad.add(place, reason)

    def close(self) -> None:
        """Close the file being read."""
        if self.lines is not None:
            self.lines.close()
            self.lines = None
