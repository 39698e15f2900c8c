"""Rows in memory with what is to be predicted for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data import Schema, Table
from heterps.errors import DataError
from heterps.estimator.features import LABEL, WEIGHT, Features
from heterps.estimator.sklearn_base import check_classification_targets

__all__ = ["MemoryRows"]


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Features as a table, targets and weights as arrays of the same length."""

    table: pa.Table
    target: npt.NDArray[Any]
    weight: npt.NDArray[np.float64] | None = None

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the features."""
        return self.table.schema

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def classes(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Return the classes in order, and the rows of each."""
        check_classification_targets(self.target)
        found, counts = np.unique(self.target, return_counts=True)
        return found, counts.astype(np.float64)

    def coded(self, classes: npt.NDArray[Any], of_class: npt.NDArray[np.float64] | None) -> MemoryRows:
        """Return the rows with the number of each one's class for a target, and its class's weight in its own."""
        codes = codes_of(self.target, classes)
        if of_class is None:
            return replace(self, target=codes)
        weight = of_class[codes.astype(np.int64)]
        return replace(self, target=codes, weight=weight if self.weight is None else weight * self.weight)

    def moments(self) -> tuple[float, float]:
        """Return mean and deviation of the target; 1 where it does not vary."""
        values = np.asarray(self.target, np.float64)
        return float(values.mean()), float(values.std()) or 1.0

    def scales(self, features: Features) -> dict[str, tuple[float, float]]:
        """Return mean and deviation of each number."""
        return features.scales(self.table)

    def dataset(self, fields: Schema) -> Table:
        """Return what is trained on; where a weight is wanted and none was given it is 1."""
        table = self.table.append_column(LABEL, pa.array(np.asarray(self.target, np.float64)))
        if "w" in fields:
            weight = np.ones(self.count) if self.weight is None else self.weight
            table = table.append_column(WEIGHT, pa.array(weight))
        return Table(table=table.combine_chunks(), fields=fields)


def codes_of(target: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the number of each row's class."""
    target = np.asarray(target)
    codes = np.minimum(np.searchsorted(classes, target), len(classes) - 1)
    strange = classes[codes] != target
    if np.any(strange):
        raise DataError(f"there is a class that the training rows have not: {str(target[strange][0])!r}")
    return codes.astype(np.float64)
