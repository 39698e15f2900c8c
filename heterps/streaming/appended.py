"""Files that others append lines to, as a source: a pass is what has been added since the one before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from heterps.errors import CheckpointError, DataError
from heterps.streaming.found_files import FoundFile, listed
from heterps.streaming.pattern import NamedPass, PassPattern
from heterps.streaming.portion import Nothing, Portion, day_order

__all__ = ["AppendedFiles"]

_ROOM = 1 << 20  # bytes read at a time


class AppendedFiles:
    """Text files that grow line by line, such as the logs of servers.

    A line counts once its end is there. Files must not get shorter; a new day is a new file.

    Parameters
    ----------
    pattern
        Of the files' names: ``logs/clicks-{day}.csv``, ``logs/{day}/{pass}.tsv`` (a pass here is one writer's file).
    header
        The first line of each file names its columns: it stands at the head of every portion.
    least_bytes, most_bytes
        A portion is made once so many bytes of whole lines are there; it takes no more than the second.
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        *,
        header: bool = False,
        least_bytes: int = 1,
        most_bytes: int = 64 << 20,
    ) -> None:
        self.pattern, self._header = PassPattern(os.fspath(pattern)), header
        self._least, self._most = least_bytes, most_bytes
        if not 1 <= least_bytes <= most_bytes:
            raise DataError(f"a portion of {least_bytes} to {most_bytes} bytes cannot be made")

    def poll(self, after: Any) -> Portion | Nothing:
        """Look which files have grown, earliest day first; a portion never spans two days."""
        offsets = _offsets(after)
        by_day: dict[str, list[FoundFile]] = {}
        for file in listed(self.pattern, _every):
            by_day.setdefault(file.which.day, []).append(file)
        days = sorted(by_day, key=day_order)
        for day in days:
            spans = self._spans(by_day[day], offsets)
            size = sum(end - begin for _, begin, end in spans)
            if size and (size >= self._least or day != days[-1]):  # of a day that is over there will be no more
                return Portion({**offsets, **{path: end for path, _, end in spans}}, day, span=spans)
        return Nothing(f"more lines in {self.pattern.text}")

    def _spans(self, files: list[FoundFile], offsets: dict[str, int]) -> list[list[Any]]:
        """Return what to take of each file: ``[path, begin, end]``, the end behind a whole line."""
        spans, left = [], self._most
        for file in files:
            begin = offsets.get(file.path, 0)
            if file.size < begin:
                raise DataError(
                    f"{file.path} has {file.size} bytes, of which {begin} were read before: files that are appended to "
                    "must not get shorter; write new rows to a new file"
                )
            end = begin + _whole_lines(file.path, begin, min(left, file.size - begin))
            if end == begin and file.size - begin > self._most:
                raise DataError(f"{file.path} has a line of more than {self._most} bytes at byte {begin}")
            if begin == 0 and self._header and end:
                begin = min(end, _first_line_bytes(file.path))
            if end > offsets.get(file.path, 0):
                spans.append([file.path, begin, end])
                left -= end - begin
        return spans

    def fetch(self, portion: Portion, folder: Path) -> tuple[str, ...]:
        """Copy the lines to a file for each they come from."""
        return tuple(
            self._copied(path, begin, end, folder / f"{number:04d}-{os.path.basename(path)}")
            for number, (path, begin, end) in enumerate(portion.span)
            if end > begin
        )

    def _copied(self, path: str, begin: int, end: int, target: Path) -> str:
        try:
            with open(path, "rb") as source, open(target, "wb") as file:
                if self._header:
                    file.write(source.readline())
                source.seek(begin)
                while begin < end:
                    data = source.read(min(_ROOM, end - begin))
                    if not data:
                        raise DataError(f"{path} ends at byte {begin}, of which {end} had been there before")
                    file.write(data)
                    begin += len(data)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from error
        return str(target)

    def commit(self, position: Any) -> None:
        """Nothing to do: whoever writes the files removes them."""

    def close(self) -> None:
        """Nothing to give back."""


def _every(which: NamedPass) -> bool:
    return True


def _offsets(after: Any) -> dict[str, int]:
    if after is None:
        return {}
    if not isinstance(after, dict) or not all(type(value) is int for value in after.values()):
        raise CheckpointError(f"this is no position in files that grow: {after!r}; the stream read something else")
    return dict(after)


def _whole_lines(path: str, begin: int, most: int) -> int:
    """Return how many bytes from ``begin`` on, not more than ``most``, end with a line."""
    try:
        with open(path, "rb") as file:
            end = begin + most
            while end > begin:
                start = max(begin, end - _ROOM)
                file.seek(start)
                at = file.read(end - start).rfind(b"\n")
                if at >= 0:
                    return start + at + 1 - begin
                end = start
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    return 0


def _first_line_bytes(path: str) -> int:
    with open(path, "rb") as file:
        return len(file.readline())
