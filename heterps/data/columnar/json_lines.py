"""Files with a JSON object on each line: Splits are ranges of bytes, blocks of lines become Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa

from heterps.data.columnar.json_blocks import json_parts, skip_mark
from heterps.data.columnar.json_cells import columns_of, object_of
from heterps.data.columnar.record_batches import ColumnarSource
from heterps.data.core.bad import BadRows
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.files import about, expand
from heterps.data.core.schema import Schema
from heterps.data.core.split import Piece, Split
from heterps.data.study.arrow_looks import study_table
from heterps.data.study.choices import Choices
from heterps.data.study.sampling import sample_lines
from heterps.data.text.delimited_text import Paths
from heterps.data.text.line_files import LineFiles
from heterps.data.text.lines import Lines
from heterps.errors import DataError

__all__ = ["JsonLines", "json_lines"]


@dataclass(frozen=True, kw_only=True)
class JsonLines(LineFiles):
    """Files of JSON lines; use :func:`json_lines` to make one.

    ``types`` is an Arrow schema of the members that sampled lines have: blocks of such lines are parsed by Arrow, what
    differs line by line. Batches are the same either way.
    """

    types: Any = field(default_factory=lambda: pa.schema([]), repr=False)

    def __post_init__(self) -> None:
        names = self.types.names
        for source in self.fields.sources:
            if source not in names:
                raise DataError(
                    f"no line looked at of {self.origin} has {source!r}; they have {', '.join(names) or 'nothing'}. "
                    "A rare member must be named: columns=[...], --columns"
                )
            if pa.types.is_struct(self.types.field(source).type):
                raise DataError(f"{self.origin}: {source!r} holds objects; put their members beside it to use them")

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start parsing pieces."""
        if not self.fields.sources:
            raise DataError(f"{self.origin}: no column of a batch is made of what its lines have")
        wanted = pa.schema([self.types.field(name) for name in self.fields.sources])
        return ColumnarSource(self.fields, json_parts(pieces, wanted, self.block_bytes), bad, self.labels)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the members that sampled lines have."""
        return tuple(self.types.names)

    @property
    def has_optional_sources(self) -> bool:
        """A member that a line lacks is missing there."""
        return True

    def with_fields(self, fields: Schema) -> Self:
        """Return this dataset with other columns; members that no sampled line has may turn up in others."""
        return Dataset.with_fields(replace(self, types=_with_names(self.types, fields.sources)), fields)

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return members as text, lists as JSON; null in lines that cannot be read."""
        found = [row for piece in split.pieces for row in _objects(piece, self.block_bytes)]
        return pa.table({name: pa.array([_cell(row, name) for row in found], pa.string()) for name in names})


def json_lines(
    paths: Paths,
    fields: Schema | None = None,
    *,
    label: str = "",
    columns: Sequence[str] = (),
    **options: Any,
) -> JsonLines:
    """Read files that have a JSON object on each line (``.jsonl``, ``.ndjson``).

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several; ``.gz`` and ``.zst`` are decompressed.
    fields
        The schema; without it, it is inferred from some lines (see :mod:`heterps.data.study.infer_schema`).
    label
        The label's member, for inference.
    columns
        Members to know of though no line that is looked at may have them.
    **options
        Further choices for inference, as for :func:`~heterps.data.text.delimited_text.csv`; fields of
        :class:`~heterps.data.core.dataset.Dataset`.
    """
    files = expand(paths)
    sample = _sample(files, columns)
    options = {"guessed": fields is None, "label": label} | options
    choices = Choices.take(options)
    if fields is None:
        with about(files[0]):
            study = study_table(sample, choices)
        fields, options = study.schema, {"study": study} | options
    return JsonLines(paths=files, fields=fields, types=sample.schema, **options)


def _sample(files: Sequence[str], columns: Sequence[str]) -> Any:
    """Return the members of lines from several places as a table."""
    lines = [line.removeprefix("\ufeff") for line in sample_lines(files, header=False)]
    found = [one for one, _ in (object_of(line.encode()) for line in lines) if one is not None]
    if not found and not columns:
        start = next((line.strip() for line in lines if line.strip()), "")[:40]
        raise DataError(
            f"{files[0]} has no JSON object on any line looked at, the first is {start!r}; write one object a line "
            "(jq -c '.[]' of an array, jq -c . of objects on several lines)"
        )
    names = dict.fromkeys([*(name for one in found for name in one), *columns])
    batch, _ = columns_of(found, [name for name in names if _is_name(name)], {})
    return pa.Table.from_batches([batch])


def _is_name(name: str) -> bool:
    return not any("\ud800" <= mark <= "\udfff" for mark in name)


def _with_names(types: Any, names: Sequence[str]) -> Any:
    return pa.schema([*types, *(pa.field(name, pa.string()) for name in names if name not in types.names)])


def _objects(piece: Piece, block_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield what each line holds; nothing for one that cannot be read."""
    with closing(Lines(piece, block_bytes)) as lines:
        while lines.refill():
            if lines.too_long >= 0:
                lines.too_long = -1
                yield {}
            skip_mark(lines)
            for line in bytes(lines.buffer[lines.pos : lines.end]).split(b"\n"):
                if line.strip():
                    yield object_of(line)[0] or {}


def _cell(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()
