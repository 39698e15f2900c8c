"""Recipes compiled to a table of steps, run once per row by one loop over the row's tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.labels import LabelRule, Labels, default_of, is_required
from heterps.data.core.recipes import Bucket, Categories, Category, Cross, Id, Ids, Match, Number, Recipe, Salted
from heterps.data.core.schema import Schema
from heterps.data.core.value_hash import hash_cell
from heterps.errors import DataError

__all__ = [
    "BUCKET",
    "CATEGORIES",
    "CATEGORY",
    "CROSS",
    "ID",
    "IDS",
    "MATCH",
    "NUMBER",
    "SALTED",
    "BoundSteps",
    "RecipeSteps",
    "compile_steps",
]

NUMBER, MATCH, CATEGORY, ID, BUCKET, CROSS, CATEGORIES, IDS, SALTED = range(9)
_ANY = LabelRule()


class BoundSteps(NamedTuple):
    """What the recipes say, with output positions for some buffers; see :class:`RecipeSteps`."""

    table: npt.NDArray[np.int64]
    salts: npt.NDArray[np.uint64]
    params: npt.NDArray[np.float64]
    links: npt.NDArray[np.int64]


@dataclass
class RecipeSteps:
    """The table.

    Attributes
    ----------
    table
        int64 ``[steps, 6]``: code, source column, base and stride of the output element (base -1: for crosses only),
        and the step's part ``a .. a + b`` of ``params`` or ``links``. For a CATEGORIES or IDS step the base is the
        number of the ragged column, the stride 1 if it starts a row's list (0 continues it), ``a`` the separator byte.
    salts
        uint64 a step; for MATCH the hash of the wanted text.
    params
        float64: ``missing, mean, 1/std, log, required, low, high`` of a NUMBER, ``missing, required`` of a MATCH, the
        bounds of a BUCKET.
    links
        int64: the steps a CROSS combines.
    schema, outputs
        What was compiled, and the step of each of its elements in order.
    """

    table: npt.NDArray[np.int64]
    salts: npt.NDArray[np.uint64]
    params: npt.NDArray[np.float64]
    links: npt.NDArray[np.int64]
    schema: Schema
    outputs: tuple[int, ...]

    def bind(self, rows: RowBuffers) -> BoundSteps:
        """Return the steps with output positions for the capacity of ``rows``."""
        bound = self.table.copy()
        row = 0
        for column in self.schema:
            for j in range(len(column.of)):
                step = self.outputs[row]
                if column.kind == "ragged":
                    bound[step, 2], bound[step, 3] = rows.lists[column.name], int(j == 0)
                else:
                    bound[step, 2], bound[step, 3] = rows.bases[column.name] + j, column.width
                row += 1
        return BoundSteps(bound, self.salts, self.params, self.links)


class _Compiler:
    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = {name: i for i, name in enumerate(columns)}
        self.rows: list[list[int]] = []
        self.salts: list[int] = []
        self.params: list[float] = []
        self.links: list[int] = []
        self.default, self.rule = 0.0, _ANY  # of the element whose recipe is being lowered

    def column(self, name: str) -> int:
        if name not in self.columns:
            raise DataError(f"there is no source column {name!r}; the input has {', '.join(self.columns)}")
        return self.columns[name]

    def add(self, recipe: Recipe, default: float = 0.0, rule: LabelRule = _ANY) -> int:
        self.default, self.rule = default, replace(rule, required=is_required(recipe, rule))
        code, column, a, b, salt = _LOWER[type(recipe)](self, recipe)
        self.rows.append([code, column, -1, 0, a, b])
        self.salts.append(salt)
        return len(self.rows) - 1

    def number(self, recipe: Number) -> tuple[int, int, int, int, int]:
        a = len(self.params)
        rule = self.rule
        self.params += [self.default, recipe.mean, 1.0 / recipe.std, float(recipe.log)]
        self.params += [float(rule.required), rule.low, rule.high]
        return NUMBER, self.column(recipe.source), a, 7, 0

    def match(self, recipe: Match) -> tuple[int, int, int, int, int]:
        a = len(self.params)
        self.params += [self.default, float(self.rule.required)]
        return MATCH, self.column(recipe.source), a, 2, hash_cell(recipe.value.encode())

    def category(self, recipe: Category) -> tuple[int, int, int, int, int]:
        return CATEGORY, self.column(recipe.source), 0, 0, recipe.salt

    def categories(self, recipe: Categories) -> tuple[int, int, int, int, int]:
        return CATEGORIES, self.column(recipe.source), recipe.separator.encode()[0], 0, recipe.salt

    def salted(self, recipe: Salted) -> tuple[int, int, int, int, int]:
        return SALTED, self.column(recipe.source), 0, 0, recipe.salt

    def ids(self, recipe: Ids) -> tuple[int, int, int, int, int]:
        return IDS, self.column(recipe.source), recipe.separator.encode()[0], 0, 0

    def id(self, recipe: Id) -> tuple[int, int, int, int, int]:
        has_default = int(recipe.missing is not None)
        return ID, self.column(recipe.source), 0, has_default, recipe.missing or 0

    def bucket(self, recipe: Bucket) -> tuple[int, int, int, int, int]:
        a = len(self.params)
        self.params += recipe.bounds
        return BUCKET, self.column(recipe.source), a, len(recipe.bounds), recipe.salt

    def cross(self, recipe: Cross) -> tuple[int, int, int, int, int]:
        parts = [self.add(part) for part in recipe.parts]
        a = len(self.links)
        self.links += parts
        return CROSS, 0, a, len(parts), recipe.salt


_LOWER: dict[type[Recipe], Callable[[_Compiler, Any], tuple[int, int, int, int, int]]] = {
    Number: _Compiler.number,
    Match: _Compiler.match,
    Category: _Compiler.category,
    Categories: _Compiler.categories,
    Id: _Compiler.id,
    Ids: _Compiler.ids,
    Salted: _Compiler.salted,
    Bucket: _Compiler.bucket,
    Cross: _Compiler.cross,
}


def compile_steps(schema: Schema, columns: tuple[str, ...], labels: Labels | None = None) -> RecipeSteps:
    """Compile a schema's recipes against the source columns of a text format."""
    compiler, rules = _Compiler(columns), labels or Labels()
    outputs = [
        compiler.add(recipe, default_of(recipe, column), rules.rule(column))
        for column in schema
        for recipe in column.of
    ]
    table = np.array(compiler.rows, np.int64).reshape(-1, 6)
    salts = np.array(compiler.salts, np.uint64)
    params = np.array(compiler.params or [0.0], np.float64)
    links = np.array(compiler.links or [0], np.int64)
    return RecipeSteps(table, salts, params, links, schema, tuple(outputs))
