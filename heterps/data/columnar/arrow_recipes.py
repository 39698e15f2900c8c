"""Recipes over Arrow columns: the columnar twin of the text parser, giving the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data.columnar import spans
from heterps.data.columnar.arrow_columns import ArrowColumn, TakenColumn
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.labels import LabelRule, Labels, default_of, is_required
from heterps.data.core.recipes import Bucket, Categories, Category, Cross, Id, Ids, Match, Number, Recipe, Salted
from heterps.data.core.schema import Field, Schema
from heterps.data.core.value_hash import RESERVED_ID, hash_bytes, hash_cell
from heterps.data.text.numeric import BAD_LABEL, NO_LABEL
from heterps.errors import DataError, UnknownKindError
from heterps.ragged import Ragged

__all__ = ["Chunk", "register_evaluation"]

_NONE: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
_IDENTITY = np.array([0.0, 0.0, 1.0, 0.0])


@dataclass(frozen=True)
class Floats:
    """Numbers with presence and the scaling to apply on the way into a batch."""

    values: npt.NDArray[Any]
    present: npt.NDArray[np.uint8]
    params: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Integers:
    """Integers in place, made ids on the way into a batch: as they stand, or mixed with a salt."""

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.uint8]
    ids: spans.IdsOfIntegers

    def put(self, lo: int, hi: int, to: spans.Elements) -> None:
        """Write rows ``lo .. hi``."""
        spans.put_integers(self.values[lo:hi], self.valid[lo:hi], self.ids, to)

    def plain(self) -> npt.NDArray[np.uint64]:
        """Return one id a row."""
        out = np.empty(len(self.values), np.uint64)
        self.put(0, len(out), spans.Elements(out, 0, 1))
        return out


Element = Floats | Integers | TakenColumn | npt.NDArray[np.uint64] | Ragged
Faults = npt.NDArray[np.int64] | None
Columns = Mapping[str, ArrowColumn]


def _number(recipe: Number, columns: Columns) -> tuple[Element, Faults]:
    values, present, bad = columns[recipe.source].numbers
    params = np.array([0.0, recipe.mean, 1.0 / recipe.std, float(recipe.log)])
    return Floats(values, present, params), bad


def _match(recipe: Match, columns: Columns) -> tuple[Element, Faults]:
    column = columns[recipe.source]
    same = _plain(column.hashes(0)) == np.uint64(hash_cell(recipe.value.encode()))
    return Floats(same.astype(np.float64), column.present, _IDENTITY.copy()), None


def _category(recipe: Category, columns: Columns) -> tuple[Element, Faults]:
    return columns[recipe.source].hashes(recipe.salt), None


def _id(recipe: Id, columns: Columns) -> tuple[Element, Faults]:
    column = columns[recipe.source].whole
    missing = np.uint64(recipe.missing or 0)
    if recipe.missing is None and len(column.valid):
        return column.ids
    return _integers(column, spans.IdsOfIntegers(missing, False, np.uint64(0)))


def _salted(recipe: Salted, columns: Columns) -> tuple[Element, Faults]:
    ids = spans.IdsOfIntegers(np.uint64(RESERVED_ID), True, np.uint64(recipe.salt))
    return _integers(columns[recipe.source].whole, ids)


def _integers(column: ArrowColumn, ids: spans.IdsOfIntegers) -> tuple[Element, Faults]:
    """Make ids of a column whose missing values have an id of their own."""
    if column.plain_integers is not None:
        return Integers(column.plain_integers, column.valid, ids), None
    values, bad = column.ids
    if bad is not None and len(column.present):
        bad = np.where(column.present, bad, 0)
    return Integers(values, column.present, ids), bad


def _bucket(recipe: Bucket, columns: Columns) -> tuple[Element, Faults]:
    values, present, bad = columns[recipe.source].numbers
    out = np.empty(len(values), np.uint64)
    spans.buckets_of(values, present, np.array(recipe.bounds, np.float64), np.uint64(recipe.salt), out)
    return out, bad


def _cross(recipe: Cross, columns: Columns) -> tuple[Element, Faults]:
    state, faults = np.empty(0, np.uint64), None
    for i, part in enumerate(recipe.parts):
        element, bad = evaluate(part, columns)
        ids = _plain(element)
        if i == 0:
            state = np.full(len(ids), recipe.salt, np.uint64)
        spans.fold_column(state, ids)
        faults = _either(faults, bad)
    spans.finish_column(state, len(recipe.parts))
    return state, faults


def _categories(recipe: Categories, columns: Columns) -> tuple[Element, Faults]:
    parts, offsets = columns[recipe.source].split(recipe.separator).lists
    ids = _plain(parts.hashes(recipe.salt))
    keep = ids != np.uint64(hash_bytes(b"", recipe.salt))
    kept = np.concatenate([[0], np.cumsum(keep)])
    return Ragged(ids[keep], kept[offsets]), None


def _ids(recipe: Ids, columns: Columns) -> tuple[Element, Faults]:
    column = columns[recipe.source].split(recipe.separator)
    parts, offsets = column.lists
    if parts.is_text:
        lengths = np.diff(parts.text[1])
        kept = np.concatenate([[0], np.cumsum(lengths > 0)])
        parts, offsets = ArrowColumn(parts.name, parts.array.filter(_arrow(lengths > 0))), kept[offsets]
    values, bad = parts.ids
    worst = np.zeros(len(offsets) - 1, np.int64)
    owner = np.repeat(np.arange(len(worst)), np.diff(offsets))
    if bad is not None:
        np.maximum.at(worst, owner, bad)
    return Ragged(values, offsets), worst


def _arrow(mask: npt.NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(mask)


_EVALUATIONS: dict[type[Recipe], Callable[[Any, Columns], tuple[Element, Faults]]] = {
    Number: _number,
    Match: _match,
    Category: _category,
    Id: _id,
    Bucket: _bucket,
    Cross: _cross,
    Categories: _categories,
    Ids: _ids,
    Salted: _salted,
}


def register_evaluation(kind: type[Recipe], function: Callable[[Any, Columns], tuple[Element, Faults]]) -> None:
    """Teach columnar readers a recipe from outside the package."""
    _EVALUATIONS[kind] = function


def evaluate(recipe: Recipe, columns: Columns) -> tuple[Element, Faults]:
    """Return the elements a recipe makes of a chunk's columns, and a reason code per faulty row."""
    if type(recipe) not in _EVALUATIONS:
        raise UnknownKindError(f"columnar readers cannot evaluate {recipe}; see register_evaluation")
    missing = [source for source in recipe.sources if source not in columns]
    if missing:
        raise DataError(f"there is no source column {missing[0]!r}; the input has {', '.join(columns)}")
    return _EVALUATIONS[type(recipe)](recipe, columns)


def _plain(element: Element) -> npt.NDArray[np.uint64]:
    if isinstance(element, (TakenColumn, Integers)):
        return element.plain()
    assert isinstance(element, np.ndarray)
    return element


def _either(a: Faults, b: Faults) -> Faults:
    if a is None or b is None:
        return b if a is None else a
    return np.where(a != 0, a, b)


def _ruled(made: tuple[Element, Faults], recipe: Recipe, column: Field, rule: LabelRule) -> tuple[Element, Faults]:
    """Put in what stands for a missing number, and find rows whose label is missing or out of bounds."""
    element, bad = made
    if not isinstance(element, Floats):
        return made
    element.params[0] = default_of(recipe, column)
    if rule.is_open:
        return made
    values = np.empty(len(element.values), np.float32)
    spans.put_numbers(element.values, element.present, element.params, spans.Elements(values, 0, 1))
    there = element.present != 0 if len(element.present) else np.ones(len(values), bool)
    faults = np.where(there & ((values < rule.low) | (values > rule.high)), BAD_LABEL, 0)
    if is_required(recipe, rule):
        faults = np.where(there, faults, NO_LABEL)
    return element, _either(bad, faults) if faults.any() else bad


class Chunk:
    """The elements of a schema for the rows of one Arrow record batch, ready to be put into batch buffers."""

    def __init__(self, schema: Schema, batch: Any, labels: Labels | None = None) -> None:
        names = dict.fromkeys(batch.schema.names)
        columns = {name: ArrowColumn(name, batch.column(i)) for i, name in enumerate(names)}
        self.schema, self.size = schema, batch.num_rows
        self.elements: list[list[Element]] = []
        self.faults: list[tuple[Recipe, npt.NDArray[np.int64]]] = []
        for column in schema:
            rule = (labels or Labels()).rule(column)
            made = [_ruled(evaluate(recipe, columns), recipe, column, rule) for recipe in column.of]
            self.elements.append([element for element, _ in made])
            for recipe, (_, bad) in zip(column.of, made, strict=True):
                if bad is not None and bad.any():
                    self.faults.append((recipe, bad))

    def put(self, lo: int, hi: int, rows: RowBuffers, row: int) -> None:
        """Write rows ``lo .. hi`` of the chunk as rows ``row ..`` of the buffers."""
        for column, elements in zip(self.schema, self.elements, strict=True):
            if column.kind == "ragged":
                rows.put_lists(column.name, row, _joined([_lists(e)[lo:hi] for e in elements]))
                continue
            base = rows.bases[column.name]
            for j, element in enumerate(elements):
                out = rows.floats if isinstance(element, Floats) else rows.ids
                _put(element, lo, hi, spans.Elements(out, base + j + row * column.width, column.width))


def _put(element: Element, lo: int, hi: int, to: spans.Elements) -> None:
    if isinstance(element, Floats):
        spans.put_numbers(element.values[lo:hi], element.present[lo:hi], element.params, to)
    elif isinstance(element, Integers):
        element.put(lo, hi, to)
    elif isinstance(element, TakenColumn):
        spans.put_taken(element.table, element.index[lo:hi], to)
    else:
        spans.put_ids(element[lo:hi], to)


def _lists(element: Element) -> Ragged:
    assert isinstance(element, Ragged)
    return element


def _joined(parts: list[Ragged]) -> Ragged:
    """Concatenate the lists of several recipes row by row."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.sum([np.diff(part.offsets) for part in parts], axis=0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = np.empty(offsets[-1], np.uint64)
    at = offsets[:-1].copy()
    for part in parts:
        sizes = np.diff(part.offsets)
        inside = np.arange(len(part.values)) - np.repeat(part.offsets[:-1], sizes)
        values[np.repeat(at, sizes) + inside] = part.values
        at += sizes
    return Ragged(values, offsets)
