"""Which columns are numbers and which categories, and how they are scaled: from the table that a model is fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from heterps.data.core.recipes import Category, Number
from heterps.data.core.schema import Field, Schema, dense, label, sparse, weight
from heterps.errors import DataError

__all__ = ["LABEL", "WEIGHT", "Features"]

LABEL, WEIGHT = "heterps.label", "heterps.weight"  # source columns beside the user's own
Categorical = Literal["auto"] | Sequence[str | int]
Scales = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Features:
    """The columns of a table by what they are."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, categorical: Categorical) -> Features:
        """Tell columns apart: what is named, and text and dictionaries, are categories; numbers are measures.

        Parameters
        ----------
        schema
            Of the table, without label.
        categorical
            Names or positions of columns that are categories whatever their type; ``"auto"`` for none.
        """
        named = set() if categorical == "auto" else {_name(schema, each) for each in categorical}
        is_category = {item.name: item.name in named or _is_words(item.type) for item in schema}
        for item in schema:
            if not is_category[item.name] and not _is_number(item.type):
                raise DataError(f"column {item.name!r} is {item.type}: give numbers or text, or leave the column out")
        return cls(
            tuple(name for name, words in is_category.items() if not words),
            tuple(name for name, words in is_category.items() if words),
        )

    def scales(self, table: pa.Table) -> dict[str, tuple[float, float]]:
        """Return mean and deviation of each number."""
        return {name: _scale(table[name]) for name in self.numbers}

    def fields(self, scales: Scales, *, weighted: bool) -> Schema:
        """Return the batch columns ``ids``, ``x``, ``y`` and, with weights, ``w``, without those that nothing makes.

        Numbers are standardised; where one is missing it counts as the mean.
        """
        found: list[Field] = []
        if self.categories:
            found.append(sparse("ids", *(Category(name) for name in self.categories)))
        if self.numbers:
            found.append(
                dense("x", *(Number(name, mean=scales[name][0], std=scales[name][1]) for name in self.numbers))
            )
        found.append(label("y", Number(LABEL)))
        return Schema((*found, weight("w", Number(WEIGHT))) if weighted else tuple(found))


def _name(schema: pa.Schema, given: str | int) -> str:
    names = schema.names
    if isinstance(given, int) and 0 <= given < len(names):
        return str(names[given])
    if given not in names:
        raise DataError(f"categorical names {given!r}, which is no column; there are {', '.join(names)}")
    return str(given)


def _is_words(kind: Any) -> bool:
    checks = (pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)


def _is_number(kind: Any) -> bool:
    checks = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(check(kind) for check in checks)


def _scale(column: Any) -> tuple[float, float]:
    values = column.cast(pa.float64(), safe=False).to_numpy()
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    mean, std = float(values.mean()), float(values.std())
    return mean, std if std > 1e-12 * max(1.0, abs(mean)) else 1.0
