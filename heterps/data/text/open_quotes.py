"""Records that a quote carries over the end of a line: which lines belong to them.

A record is one line here, so one whose quotes go on is bad; the lines that it goes on with must not be read as rows.
"""

from __future__ import annotations

from heterps.data.core.files import open_bytes

__all__ = ["OpenQuotes"]

_LOOK_BACK = 1 << 16


class OpenQuotes:
    """Whether a line belongs to the record before it, of a file that is read line by line.

    A *whole* line has all columns and no quote that is out of place. It never belongs to the record before it: the
    quote that was left open there was a stray one, and costs its own line only. So what a line belongs to depends on
    the lines back to the last whole one, wherever a read begins.
    """

    def __init__(self, delimiter: str, quote: str, columns: int) -> None:
        self.delimiter, self.quote, self.columns = delimiter.encode(), quote.encode(), columns
        self.is_open = False

    def takes(self, line: bytes) -> bool:
        """Whether ``line`` (without its newline) goes on with the record before; False also ends that record."""
        if not self.is_open:
            return False
        line = line.removesuffix(b"\r")
        self.is_open = False
        if self._is_whole(line):
            return False
        behind = self._behind_quotes(line, 0)
        if behind < 0:
            self.is_open = True
            return True
        if line[behind:] and not line.startswith(self.delimiter, behind):
            return False
        self.is_open = self._cut(line[behind:])[1]
        return True

    def begins(self, line: bytes) -> None:
        """Say that a record begins with ``line``."""
        self.is_open = bool(self.quote) and self.quote in line and self._cut(line.removesuffix(b"\r"))[1]

    def look_back(self, source: str, offset: int) -> None:
        """Find out from the lines before it what the line at a byte offset of a file belongs to."""
        start = max(offset - _LOOK_BACK, 0)
        with open_bytes(source) as file:
            file.seek(start)
            before = file.read_exactly(offset - start)
        lines = before.split(b"\n")[int(start > 0) : -1]
        first = len(lines)
        while first and not self._is_whole(lines[first - 1].removesuffix(b"\r")):
            first -= 1
        for line in lines[first:]:
            if not self.takes(line):
                self.begins(line)

    def _is_whole(self, line: bytes) -> bool:
        if self.quote not in line:
            return line.count(self.delimiter) + 1 == self.columns
        return self._cut(line) == (self.columns, False, False)

    def _cut(self, line: bytes) -> tuple[int, bool, bool]:
        """Return the fields of a line, whether it ends within quotes, and whether a field ends with a lone quote."""
        fields, at = 0, 0
        closes = False
        while True:
            fields += 1
            if line.startswith(self.quote, at):
                at = self._behind_quotes(line, at + 1)
                if at < 0:
                    return fields, True, closes
            stop = line.find(self.delimiter, at)
            closes |= line.endswith(self.quote, at, len(line) if stop < 0 else stop)
            if stop < 0:
                return fields, False, closes
            at = stop + 1

    def _behind_quotes(self, line: bytes, at: int) -> int:
        """Return the position behind the quote that closes the text at ``at``; -1 if none does."""
        while (found := line.find(self.quote, at)) >= 0:
            if not line.startswith(self.quote, found + 1):
                return found + 1
            at = found + 2
        return -1
