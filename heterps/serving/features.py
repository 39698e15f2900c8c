"""Rows as an application has them to the columns of a batch, as the model's own recipes say; nothing is compiled.

The third way to evaluate recipes, beside text readers and columnar ones, for a few rows at a time: cells are taken one
by one, hashes and scalings all at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data.columnar.raw_rows import raw_rows
from heterps.data.columnar.written import written
from heterps.data.core.labels import default_of
from heterps.data.core.recipes import Bucket, Categories, Category, Cross, Id, Ids, Match, Number, Recipe, Salted
from heterps.data.core.schema import Field, Schema
from heterps.data.core.value_hash import RESERVED_ID, whole_text
from heterps.errors import DataError, UnknownKindError
from heterps.ragged import Ragged
from heterps.serving.plain_values import finish, fold, hash_numbers, hash_texts, id_of, log1p_of, number_of, text_of

__all__ = ["PlainFeatures", "register_plain"]

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
Cells = Mapping[str, Sequence[Any]]
_PLAIN = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


class PlainFeatures:
    """Makes the columns of a batch.

    Parameters
    ----------
    fields
        Columns with their recipes.
    """

    def __init__(self, fields: Schema) -> None:
        self.fields = fields
        self.sources = fields.sources
        self._hashed = [(column.name, j, recipe) for column in fields for j, recipe in _categories_of(column)]
        self._salts = np.array([recipe.salt for _, _, recipe in self._hashed], np.uint64)
        self._scalings = {column.name: _Scaling(column) for column in fields if _is_numbers(column)}

    def columns(self, rows: Any) -> dict[str, Any]:
        """Return batch columns of rows: a dict, dicts, lines of JSON, a frame. What cannot be used is an error."""
        cells, n = self._cells(rows)
        hashes = self._hashes(cells, n)
        return {column.name: self._column(column, cells, n, hashes) for column in self.fields}

    def _cells(self, rows: Any) -> tuple[Cells, int]:
        """Return the values of source columns, and how many rows there are."""
        if isinstance(rows, str | bytes):
            lines: list[Any] = list(rows.splitlines())
            rows = [_parsed(i, line) for i, line in enumerate(lines, start=1) if line.strip()]
        if isinstance(rows, Mapping) and not any(map(_may_be_column, rows.values())):
            rows = [rows]
        if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
            self._check_there({name for row in rows for name in row})
            return {name: [row.get(name) for row in rows] for name in self.sources}, len(rows)
        table = raw_rows(rows, self.fields).table
        self._check_there(table.column_names)
        return {name: _listed(table[name]) for name in self.sources}, table.num_rows

    def _check_there(self, names: Iterable[str]) -> None:
        there = set(names)
        for column in self.fields:
            for recipe in column.of:
                for source in recipe.sources:
                    if source not in there:
                        raise DataError(
                            f"the rows have no column {source!r}, of which the model's {column.name!r} was made in "
                            f"training; they have {', '.join(sorted(map(str, there))) or 'none'}"
                        )

    def _hashes(self, cells: Cells, n: int) -> dict[tuple[str, int], U64]:
        """Hash all categories at once, by column and element."""
        if not self._hashed:
            return {}
        texts: list[bytes] = []
        for _, _, recipe in self._hashed:
            texts += _each(text_of, cells[recipe.sources[0]], recipe)
        made = hash_texts(texts, np.repeat(self._salts, n)).reshape(-1, n)
        return {(name, j): made[k] for k, (name, j, _) in enumerate(self._hashed)}

    def _column(self, column: Field, cells: Cells, n: int, hashes: Mapping[tuple[str, int], U64]) -> Any:
        if column.kind == "ragged":
            return _lists(column, cells, n)
        if column.name in self._scalings:
            return self._scalings[column.name](cells, n).reshape(n, *column.shape)
        out = np.empty((n, column.width), column.dtype)
        for j, recipe in enumerate(column.of):
            made = hashes.get((column.name, j))
            if made is None:
                made = evaluated(recipe, cells)
            if column.kind != "sparse":
                made = np.where(np.isnan(made), default_of(recipe, column), made)
            out[:, j] = made
        return out.reshape(n, *column.shape)


def _categories_of(column: Field) -> list[tuple[int, Recipe]]:
    if column.kind == "ragged":
        return []
    return [(j, recipe) for j, recipe in enumerate(column.of) if type(recipe) is Category]


def _is_numbers(column: Field) -> bool:
    return column.kind not in ("sparse", "ragged") and all(type(recipe) is Number for recipe in column.of)


class _Scaling:
    """A column of scaled numbers, all elements at once."""

    def __init__(self, column: Field) -> None:
        numbers = [recipe for recipe in column.of if isinstance(recipe, Number)]
        self._recipes = numbers
        self._mean = np.array([recipe.mean for recipe in numbers])
        self._inverse = np.array([1.0 / recipe.std for recipe in numbers])
        self._logs = [j for j, recipe in enumerate(numbers) if recipe.log]
        self._default = np.array([default_of(recipe, column) for recipe in numbers])

    def __call__(self, cells: Cells, n: int) -> npt.NDArray[np.float32]:
        values = np.array([_each(number_of, cells[recipe.source], recipe) for recipe in self._recipes]).reshape(-1, n).T
        missing = np.isnan(values)
        if self._logs:
            some = np.where(missing, 0.0, values)[:, self._logs]
            values[:, self._logs] = np.copysign(log1p_of(np.abs(some)), some)
        scaled = (values - self._mean) * self._inverse
        return np.where(missing, self._default, scaled).astype(np.float32)


def _each(take: Callable[[Any], Any], values: Sequence[Any], recipe: Recipe) -> list[Any]:
    """Take every cell of a source column; what cannot be used is named with its row."""
    try:
        return [take(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        pass
    for row, value in enumerate(values, start=1):
        try:
            take(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"row {row}, column {recipe.sources[0]!r}: {str(value)[:80]!r} is {error}") from error
    raise AssertionError("a cell was refused once and then taken")


def _ids(recipe: Recipe, values: Sequence[Any], missing: int | None) -> U64:
    found = _each(id_of, values, recipe)
    if missing is None and None in found:
        raise DataError(
            f"row {found.index(None) + 1}, column {recipe.sources[0]!r}: there is no id, and none stands for it"
        )
    return np.array([missing if each is None else each for each in found], np.uint64)


def _category(recipe: Category, cells: Cells) -> U64:
    texts = _each(text_of, cells[recipe.source], recipe)
    return hash_texts(texts, np.full(len(texts), recipe.salt, np.uint64))


def _match(recipe: Match, cells: Cells) -> F64:
    wanted = whole_text(recipe.value.encode())
    texts = _each(text_of, cells[recipe.source], recipe)
    return np.array([math.nan if not text else float(text == wanted) for text in texts])


def _number(recipe: Number, cells: Cells) -> F64:
    values = np.array(_each(number_of, cells[recipe.source], recipe), np.float64)
    if recipe.log:
        values = np.where(np.isnan(values), values, np.copysign(log1p_of(np.abs(np.nan_to_num(values))), values))
    return (values - recipe.mean) * (1.0 / recipe.std)


def _bucket(recipe: Bucket, cells: Cells) -> U64:
    values = np.array(_each(number_of, cells[recipe.source], recipe), np.float64)
    bounds = np.array(recipe.bounds, np.float64)
    places = np.where(np.isnan(values), len(bounds) + 1, np.searchsorted(bounds, values, side="right"))
    return hash_numbers(places.astype(np.uint64), recipe.salt)


def _cross(recipe: Cross, cells: Cells) -> U64:
    parts = [evaluated(part, cells) for part in recipe.parts]
    state = np.full(len(parts[0]), recipe.salt, np.uint64)
    for part in parts:
        state = fold(state, part)
    return finish(state ^ np.uint64(8 * len(parts)))


_EVALUATIONS: dict[type[Recipe], Callable[[Any, Cells], npt.NDArray[Any]]] = {
    Category: _category,
    Match: _match,
    Number: _number,
    Id: lambda recipe, cells: _ids(recipe, cells[recipe.source], recipe.missing),
    Salted: lambda recipe, cells: hash_numbers(_ids(recipe, cells[recipe.source], RESERVED_ID), recipe.salt),
    Bucket: _bucket,
    Cross: _cross,
}


def register_plain(kind: type[Recipe], function: Callable[[Any, Cells], npt.NDArray[Any]]) -> None:
    """Teach predictors a recipe from outside the package: ``function(recipe, cells)`` gives an element for each row."""
    _EVALUATIONS[kind] = function


def evaluated(recipe: Recipe, cells: Cells) -> npt.NDArray[Any]:
    """Return the elements a recipe makes: ids, or numbers that are NaN where they are missing."""
    if type(recipe) not in _EVALUATIONS:
        raise UnknownKindError(f"a predictor cannot evaluate {recipe}; see heterps.serving.features.register_plain")
    return _EVALUATIONS[type(recipe)](recipe, cells)


def _lists(column: Field, cells: Cells, n: int) -> Ragged:
    """Return a ragged column: what its recipes make of a row stands in one list."""
    rows: list[list[Any]] = [[] for _ in range(n)]
    for recipe in column.of:
        if not isinstance(recipe, Categories | Ids):
            raise UnknownKindError(f"a predictor cannot evaluate {recipe} in a column of lists")
        cells_of = _each(partial(_parts, recipe.separator.encode()), cells[recipe.source], recipe)
        for row, parts in zip(rows, _list_ids(recipe, cells_of), strict=True):
            row += parts
    return Ragged.from_lists(rows)


def _parts(separator: bytes, value: Any) -> list[Any]:
    if value is None or (isinstance(value, float) and value != value):
        return []
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return [part for part in text.split(separator) if part]
    if isinstance(value, list | tuple | np.ndarray):
        return list(value)
    raise ValueError("neither a list nor text with separators")


def _list_ids(recipe: Categories | Ids, cells: list[list[Any]]) -> list[list[Any]]:
    flat = [part for parts in cells for part in parts]
    if isinstance(recipe, Ids):
        ids, keep = _ids(recipe, flat, None), [True] * len(flat)
    else:
        texts = _each(text_of, flat, recipe)
        ids, keep = hash_texts(texts, np.full(len(texts), recipe.salt, np.uint64)), [bool(text) for text in texts]
    made, at = [], 0
    for parts in cells:
        made.append([ids[i] for i in range(at, at + len(parts)) if keep[i]])
        at += len(parts)
    return made


def _may_be_column(value: Any) -> bool:
    return not (value is None or isinstance(value, str | bytes | int | float | np.generic))


def _parsed(number: int, line: Any) -> Any:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"line {number} of the rows is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"line {number} of the rows is of type {type(row).__name__}, expected an object")
    return row


def _listed(column: Any) -> list[Any]:
    """Return a column as Python values; what only Arrow can write out is text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _listed(column.cast(kind.value_type))
    if any(check(kind) for check in (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary)):
        return _listed(column.cast(pa.large_binary()))
    if any(check(kind) for check in (*_PLAIN, *_TEXT, *_LISTS)):
        return list(column.to_pylist())
    return list(written(column).to_pylist())
