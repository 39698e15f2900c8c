"""Some rows of text files, from their beginning and from places further on: sorted files look different there."""

from __future__ import annotations

import csv as stdlib_csv
from collections.abc import Sequence

from heterps.data.core.files import is_compressed, open_bytes, size_of

__all__ = ["has_padding", "sample_lines", "sample_rows"]

_HEAD, _PART, _PLACES = 1 << 18, 1 << 16, 8
_WHOLE = _HEAD + _PART * _PLACES  # a file of this size is read as one: places in it would overlap


def sample_lines(paths: Sequence[str], header: bool) -> list[str]:
    """Return whole lines from several places, without header lines."""
    places = _places(paths)
    lines = _lines(paths[0], 0, _HEAD if places else _WHOLE)[int(header) :]
    for path, offset in places:
        lines += _lines(path, offset, _PART)[int(header and offset == 0) :]
    return lines


def _places(paths: Sequence[str]) -> list[tuple[str, int]]:
    """Return where to look besides the head of the first file."""
    if len(paths) > 1:
        chosen = [paths[len(paths) * i // _PLACES] for i in range(1, _PLACES)]
        return [(path, 0) for path in dict.fromkeys(chosen) if path != paths[0]]
    size = 0 if is_compressed(paths[0]) else size_of(paths[0])
    if size <= _WHOLE:
        return []
    step = (size - _HEAD) // _PLACES
    return [(paths[0], _HEAD + step * i) for i in range(1, _PLACES)]


def _lines(path: str, offset: int, size: int) -> list[str]:
    with open_bytes(path) as file:
        if offset:
            file.seek(offset)
        data = file.read_exactly(size)
    text = data.decode("utf-8", "replace").replace("\0", "")
    lines = text.split("\n")
    if len(data) == size:
        lines.pop()  # it goes on
    return [line.removesuffix("\r") for line in lines[int(offset > 0) :]]


def sample_rows(paths: Sequence[str], header: bool, delimiter: str, quote: str) -> list[list[str]]:
    """Return the cells of lines from several places; a record is one line."""
    return [_cells(line, delimiter, quote) for line in sample_lines(paths, header) if line]


def _cells(line: str, delimiter: str, quote: str) -> list[str]:
    if not quote or quote not in line:
        return line.split(delimiter)
    try:
        return next(stdlib_csv.reader([line], delimiter=delimiter, quotechar=quote))
    except stdlib_csv.Error:
        return []  # a bad line: it has no cells


def has_padding(rows: Sequence[Sequence[str]]) -> bool:
    """Whether every cell of some column begins or ends with a space: it belongs to the delimiter, not to values."""
    width = max(map(len, rows), default=0)
    columns = ([row[i] for row in rows if len(row) == width and row[i]] for i in range(width))
    return any(cells and all(cell[0] == " " or cell[-1] == " " for cell in cells) for cells in columns)
