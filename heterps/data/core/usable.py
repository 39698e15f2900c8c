"""Ready-made columns checked row by row: what arrays, generators and images share with parsed text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data.core.bad import BadRow, BadRows
from heterps.data.core.batch import Column
from heterps.data.core.chunks import Columns
from heterps.data.core.labels import LabelRule, Labels
from heterps.data.core.schema import Field, Schema
from heterps.ragged import Ragged

__all__ = ["Located", "usable_chunks"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Located:
    """Columns of some rows, and where the first of them lies."""

    source: str
    first_row: int
    columns: Columns


def usable_chunks(chunks: Iterable[Located], schema: Schema, labels: Labels, bad: BadRows) -> Iterator[Columns]:
    """Yield chunks without the rows that no format takes, which are counted.

    An infinite number is bad. NaN is a missing one: 0 in a feature, and what ``labels`` says in a label.
    """
    done = 0
    rules = {column.name: labels.rule(column) for column in schema if column.kind not in ("sparse", "ragged")}
    for chunk in chunks:
        size = len(next(iter(chunk.columns.values())))
        columns, faults = dict(chunk.columns), []
        for name, rule in rules.items():
            columns[name], found = _checked(schema[name], columns[name], rule)
            faults += found
        if faults:
            columns, size = _without(chunk, columns, faults, bad, done), size - _count(faults)
        done += size
        yield columns


Fault = tuple[str, str, Mask]  # column, reason, rows


def _checked(field: Field, column: Any, rule: LabelRule) -> tuple[Column, list[Fault]]:
    """Return a column with 0 for missing features, and its faulty rows. A finite sum says that all is finite."""
    faults: list[Fault] = []
    if len(column) and not np.isfinite(column.sum(dtype=np.float64)):
        rest = tuple(range(1, column.ndim))
        missing = np.isnan(column)
        faults.append((field.name, "not a finite number", np.isinf(column).any(axis=rest)))
        if rule.required:
            faults.append((field.name, "no label", missing.any(axis=rest)))
        elif field.kind == "dense":
            column = np.where(missing, np.float32(0), column)
    if rule.low > -np.inf or rule.high < np.inf:
        flat = column.reshape(len(column), -1)
        faults.append((field.name, "label out of bounds", ((flat < rule.low) | (flat > rule.high)).any(axis=1)))
    return column, [fault for fault in faults if fault[2].any()]


def _count(faults: list[Fault]) -> int:
    return int(np.logical_or.reduce([rows for _, _, rows in faults]).sum())


def _without(chunk: Located, columns: Columns, faults: list[Fault], bad: BadRows, done: int) -> dict[str, Column]:
    """Count the faulty rows and leave them out."""
    worst = np.logical_or.reduce([rows for _, _, rows in faults])
    for n, i in enumerate(np.flatnonzero(worst).tolist()):
        name, reason = next((name, reason) for name, reason, rows in faults if rows[i])
        row, text = chunk.first_row + i, str(np.asarray(chunk.columns[name][i : i + 1]).tolist()[0])[:80]
        bad.add(BadRow(chunk.source, row + 1, row, f"{reason} in column {name!r}", text, done + i - n), reason)
    return {name: _kept(column, ~worst) for name, column in columns.items()}


def _kept(column: Column, mask: Mask) -> Column:
    if not isinstance(column, Ragged):
        return column[mask]
    lengths = np.diff(column.offsets)
    values = column.values[column.offsets[0] : column.offsets[-1]][np.repeat(mask, lengths)]
    return Ragged(values, np.concatenate([[0], np.cumsum(lengths[mask])]))
