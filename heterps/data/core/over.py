"""Datasets made of another one: they lie where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from heterps.data.core.dataset import Dataset
from heterps.data.core.schema import Schema
from heterps.data.core.split import Piece, Split

__all__ = ["Over"]


@dataclass(frozen=True, kw_only=True)
class Over(Dataset):
    """Reads the pieces of another dataset, in its own way."""

    of: Dataset

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.of.schema

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Return the pieces of the dataset below."""
        return self.of.pieces(grain)

    @property
    def source_names(self) -> tuple[str, ...] | None:
        """Those of the dataset below."""
        return self.of.source_names

    @property
    def has_optional_sources(self) -> bool:
        """As the dataset below."""
        return self.of.has_optional_sources

    def reading(self) -> dict[str, Any]:
        """Return what the dataset below needs."""
        return self.of.reading()

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return those of the dataset below."""
        return self.of.cells(split, names)

    def where(self, splits: Sequence[Split]) -> tuple[tuple[str, ...], ...]:
        """Say where the rows of the dataset below are."""
        return self.of.where(splits)

    def held_rows(self, split: Split) -> Mapping[str, Any]:
        """Return what the dataset below must be handed."""
        return self.of.held_rows(split)

    def given(self, rows: Mapping[str, Any]) -> Self:
        """Hand it over."""
        return replace(self, of=self.of.given(rows))
