"""Means and deviations of dense columns, for standardising."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data.core.dataset import Dataset
from heterps.data.core.recipes import Number
from heterps.data.core.schema import Field, Schema
from heterps.data.core.split import Split
from heterps.errors import DataError

__all__ = ["Moments", "moments", "standardised"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, sum and sum of squares of each element of a dense column; merges across Splits."""

    count: int
    total: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows."""
        return Moments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """Mean of each element."""
        return self.total / max(self.count, 1)

    @property
    def std(self) -> npt.NDArray[np.float64]:
        """Deviation of each element; 1 where it does not vary."""
        variance = np.maximum(self.squares / max(self.count, 1) - np.square(self.mean), 0.0)
        return np.where(variance > 1e-12, np.sqrt(variance), 1.0)


def moments(data: Dataset, split: Split, column: str = "x", batch_size: int = 8192) -> Moments:
    """Return the moments of a dense column over one Split: run it where the Split lies, merge the results."""
    width = data.schema[column].width
    found = Moments(0, np.zeros(width), np.zeros(width))
    for batch in data.read(split, batch_size=batch_size):
        values = np.asarray(batch[column], np.float64).reshape(batch.size, width)
        found = found.merge(Moments(batch.size, values.sum(0), np.square(values).sum(0)))
    return found


def standardised(data: Dataset, column: str = "x", found: Moments | None = None) -> Dataset:
    """Return the dataset with the numbers of a dense column standardised.

    Parameters
    ----------
    data
        A dataset whose ``fields`` are made of recipes (text, Parquet, frames).
    column
        The dense column.
    found
        Its moments; without it they are taken from the first Split, in this process.
    """
    known = moments(data, data.splits()[0], column) if found is None else found
    item = data.schema[column]
    if not item.of or not all(isinstance(recipe, Number) for recipe in item.of):
        raise DataError(f"column {column!r} is not made of numbers, so it cannot be standardised")
    fields = tuple(_scaled(item, known) if item.name == column else item for item in data.schema)
    changed: dict[str, Any] = {"fields": Schema(fields)}
    return replace(data, **changed)


def _scaled(column: Field, known: Moments) -> Field:
    of: list[Any] = []
    for recipe, mean, std in zip(column.of, known.mean, known.std, strict=True):
        assert isinstance(recipe, Number)
        # The moments are those of the scaled values so far: undo that scaling.
        centre, spread = recipe.mean + float(mean) * recipe.std, recipe.std * float(std)
        of.append(replace(recipe, mean=centre, std=spread))
    return replace(column, of=tuple(of))
