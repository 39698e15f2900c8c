"""Formats by name: what command lines and configuration files use, and where outsiders add theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heterps.data.core.dataset import Dataset
from heterps.data.core.files import expand, open_bytes
from heterps.data.core.reader_table import Reader, ReaderTable
from heterps.data.text.criteo import CRITEO_COLUMNS
from heterps.errors import IMPORT_FIRST, DataError, UnknownKindError
from heterps.own_modules import may_replace

__all__ = ["READERS", "guess_format", "open_dataset", "register_reader"]

READERS = ReaderTable(
    {
        "adult": "heterps.data.sources.adult:adult",
        "criteo": "heterps.data.text.criteo:Criteo",
        "csv": "heterps.data.text.delimited_text:csv",
        "images": "heterps.data.sources.images:image_folder",
        "jsonl": "heterps.data.columnar.json_lines:json_lines",
        "libsvm": "heterps.data.text.libsvm:libsvm",
        "parquet": "heterps.data.columnar.parquet_files:parquet",
        "slots": "heterps.data.text.slot_text:slot_text",
        "tsv": "heterps.data.text.delimited_text:tsv",
    }
)


_SUFFIXES = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    **dict.fromkeys(("libsvm", "svm", "libfm"), "libsvm"),
    **dict.fromkeys(("jsonl", "ndjson"), "jsonl"),
}


def register_reader(name: str, reader: Reader, suffixes: Sequence[str] = ()) -> None:
    """Add a format.

    Parameters
    ----------
    name
        What ``--format`` and ``open_dataset(format=)`` call it; another module's name cannot be taken.
    reader
        ``reader(paths, **options)`` returns a :class:`~heterps.data.core.dataset.Dataset`.
    suffixes
        Ends of file names by which the format is known where none is given, such as ``("npz",)``.
    """
    if not may_replace(reader, READERS.get(name, reader)):
        raise DataError(f"a data format is called {name!r} already; choose another name")
    taken = [suffix for suffix in suffixes if _SUFFIXES.get(suffix, name) != name]
    if taken:
        raise DataError(f"files that end in .{taken[0]} are of the format {_SUFFIXES[taken[0]]!r} already")
    READERS[name] = reader
    _SUFFIXES.update(dict.fromkeys(suffixes, name))


def open_dataset(paths: Any, format: str = "auto", **options: Any) -> Dataset:
    """Open files in a named format, or in the one their names and first line suggest.

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several; ``adult:train`` and ``adult:test`` are the bundled census data.
    format
        One of :data:`READERS`, or ``auto``.
    **options
        Given to the reader.

    Examples
    --------
    >>> open_dataset("adult:test").schema.names
    ('ids', 'x', 'y')
    """
    if isinstance(paths, str) and paths.split(":")[0] == "adult":
        format, paths = "adult", paths.partition(":")[2] or "train"
    if format == "auto":
        format = guess_format(paths)
    if format not in READERS:
        known = ", ".join(sorted(READERS))
        raise UnknownKindError(f"no data format is called {format!r}; there are {known}{IMPORT_FIRST}")
    return READERS[format](paths, **options)


def guess_format(paths: Any) -> str:
    """Return the format that the first file's name, then its first line, suggest."""
    first = expand(paths)[0]
    name = first
    for suffix in (".gz", ".zst", ".zstd", ".bz2", ".xz"):  # readers say that they do not unpack the last two
        name = name.removesuffix(suffix)
    for suffix, format in _SUFFIXES.items():
        if name.endswith(f".{suffix}"):
            return format
    return _guess_by_line(first)


def _guess_by_line(path: str) -> str:
    with open_bytes(path) as file:
        line = file.read_exactly(1 << 16).split(b"\n", 1)[0]
    if line.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return "jsonl"
    if line.count(b"\t") == len(CRITEO_COLUMNS) - 1 and line.split(b"\t", 1)[0] in (b"0", b"1"):
        return "criteo"
    if b"\t" in line:
        return "tsv"
    tokens = line.split()
    if tokens and all(b":" in token for token in tokens):
        return "slots"
    if len(tokens) > 1 and b":" not in tokens[0] and all(b":" in token for token in tokens[1:]):
        return "libsvm"
    if any(mark in line for mark in (b",", b";", b"|")):
        return "csv"
    raise DataError(f"cannot tell the format of {path}; name it: {', '.join(sorted(READERS))}")
