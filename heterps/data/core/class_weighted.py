"""Rows weighted by the class of their label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from heterps.data.core.bad import BadRows
from heterps.data.core.batch import Batch
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.over import Over
from heterps.data.core.schema import Field, Schema
from heterps.data.core.split import Piece, Split

__all__ = ["ClassWeighted", "class_weighted"]


@dataclass(frozen=True, kw_only=True)
class ClassWeighted(Over):
    """Another dataset with a column of weights: each row's is that of its label, times the one that it had.

    Parameters
    ----------
    label, weight
        Names of the columns.
    weights
        (label, weight); rows of other labels weigh 1.
    """

    label: str
    weight: str
    weights: tuple[tuple[float, float], ...]

    @property
    def schema(self) -> Schema:
        """The columns of the dataset below, and the weight."""
        below = self.of.schema
        return below if self.weight in below else Schema((*below, Field(self.weight, "weight")))

    def marks(self) -> dict[str, Any]:
        """Return those of the dataset below, and the weights."""
        return {"of": self.of.fingerprint(), "class weights": [list(pair) for pair in self.weights]}

    def spread(self, parts: int, batch_size: int) -> Self:
        """Cut the dataset below."""
        return replace(self, of=self.of.spread(parts, batch_size))

    def with_fields(self, fields: Schema) -> Self:
        """Return the dataset below with other columns, weighted as it is."""
        return replace(self, of=self.of.with_fields(fields), guessed=False)

    def _below(self) -> Dataset:
        return replace(self.of, shuffling=self.shuffling, bad_input=self.bad_input, labels=self.labels)

    def splits(self, pass_: int = 0, seed: int = 0) -> tuple[Split, ...]:
        """Return those of the dataset below."""
        return self._below().splits(pass_, seed)

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Read the dataset below; weights are given to whole batches."""
        return self._below().open(pieces, bad)

    def read(self, split: Split, **options: Any) -> Iterator[Batch]:
        """Yield the batches of the dataset below with their weights."""
        for batch in self._below().read(split, **options):
            given = batch.columns.get(self.weight)
            weights = self._weights(np.asarray(batch.columns[self.label]))
            whole = weights if given is None else weights * np.asarray(given)
            yield Batch(batch.key, batch.size, {**batch.columns, self.weight: whole})

    def _weights(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        found = np.ones(len(labels), np.float32)
        for label, weight in self.weights:
            found[labels == label] = weight
        return found


def class_weighted(data: Dataset, label: str, weight: str, weights: dict[float, float]) -> ClassWeighted:
    """Return a dataset with weights by label in the column ``weight``."""
    settings = ("shuffling", "bad_input", "labels", "split_cost", "guessed", "study")
    kept = {name: getattr(data, name) for name in settings}
    return ClassWeighted(of=data, label=label, weight=weight, weights=tuple(sorted(weights.items())), **kept)
