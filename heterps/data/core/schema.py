"""Which columns a dataset yields, and from which source columns each is made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from heterps.data.core.recipes import Categories, Ids, Recipe, recipe_from_json
from heterps.errors import DataError

__all__ = ["Field", "Kind", "Schema", "check_distinct", "dense", "label", "ragged", "sparse", "weight"]

Kind = Literal["dense", "sparse", "ragged", "label", "weight"]
KINDS: tuple[Kind, ...] = ("dense", "sparse", "ragged", "label", "weight")


@dataclass(frozen=True)
class Field:
    """One column of a batch.

    Parameters
    ----------
    name
        The name graphs use (``ops.input(name, ...)``).
    kind
        ``dense``, ``label``, ``weight``: float32; ``sparse``: uint64 ids, a fixed number a row; ``ragged``: uint64 ids,
        any number a row.
    shape
        Shape of one row: ``(13,)``, ``()`` for a scalar; ``()`` for ragged.
    of
        How each element is made from source columns; empty where the reader makes the column itself (images, arrays).
    """

    name: str
    kind: Kind
    shape: tuple[int, ...] = ()
    of: tuple[Recipe, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"column {self.name!r}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        if self.of and self.kind != "ragged" and len(self.of) != self.width:
            raise DataError(f"column {self.name!r} has {self.width} elements a row but {len(self.of)} recipes")
        for recipe in self.of:
            if _makes(recipe) != _wants(self.kind):
                raise DataError(
                    f"column {self.name!r} is {self.kind}: it is made of {_wants(self.kind)}, not of {recipe}"
                )

    @property
    def width(self) -> int:
        """Elements a row (1 for scalars)."""
        return math.prod(self.shape)

    @property
    def absent(self) -> tuple[int, ...]:
        """The id each element of a sparse column has where its source is missing (0 where recipes do not say)."""
        return tuple(recipe.absent for recipe in self.of) or (0,) * self.width

    @property
    def labels(self) -> tuple[str, ...]:
        """A short name for each element."""
        if self.of:
            return tuple(recipe.label for recipe in self.of)
        return (self.name,) if self.width == 1 else tuple(f"{self.name}[{i}]" for i in range(self.width))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return np.dtype(np.uint64 if self.kind in ("sparse", "ragged") else np.float32)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able description."""
        of = [recipe.to_json() for recipe in self.of]
        return {"name": self.name, "kind": self.kind, "shape": list(self.shape), "of": of}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Field:
        """Inverse of :meth:`to_json`."""
        of = tuple(recipe_from_json(recipe) for recipe in value.get("of", ()))
        return cls(value["name"], value["kind"], tuple(value["shape"]), of)


def _makes(recipe: Recipe) -> str:
    if isinstance(recipe, (Categories, Ids)):
        return "id lists"
    return "ids" if recipe.makes_id else "numbers"


def _wants(kind: Kind) -> str:
    return {"sparse": "ids", "ragged": "id lists"}.get(kind, "numbers")


def dense(name: str, *of: Recipe, shape: tuple[int, ...] | None = None) -> Field:
    """Describe a float32 column ``[n, len(of)]``."""
    return Field(name, "dense", (len(of),) if shape is None else shape, of)


def sparse(name: str, *of: Recipe, shape: tuple[int, ...] | None = None) -> Field:
    """Describe a uint64 column ``[n, len(of)]``."""
    return Field(name, "sparse", (len(of),) if shape is None else shape, of)


def ragged(name: str, *of: Recipe) -> Field:
    """Describe a column of id lists of any length."""
    return Field(name, "ragged", (), of)


def label(name: str, *of: Recipe) -> Field:
    """Describe the label, float32 ``[n]``."""
    return Field(name, "label", (), of)


def weight(name: str, *of: Recipe) -> Field:
    """Describe the example weight, float32 ``[n]``."""
    return Field(name, "weight", (), of)


def check_distinct(names: Sequence[str], where: str) -> None:
    """Refuse two source columns of one name: which of them is meant cannot be told."""
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if name in first:
            raise DataError(
                f"{where}: columns {first[name]} and {number} are both called {name!r}; give each a name of its own"
            )
        first[name] = number


@dataclass(frozen=True)
class Schema:
    """The columns of a dataset, in order."""

    fields: tuple[Field, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"schema names a column twice: {', '.join(twice)}")

    @classmethod
    def of(cls, *fields: Field) -> Schema:
        """Build from fields."""
        return cls(fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Field:
        for column in self.fields:
            if column.name == name:
                return column
        raise DataError(f"there is no column {name!r}; the dataset has {', '.join(self.names) or 'no columns'}")

    def one(self, kind: Kind) -> Field:
        """Return the only column of a kind, or say which there are."""
        found = [column for column in self.fields if column.kind == kind]
        if len(found) != 1:
            names = ", ".join(f"{column.name} ({column.kind})" for column in self.fields)
            raise DataError(f"expected one {kind} column, found {len(found)}; the dataset has {names}")
        return found[0]

    @property
    def sources(self) -> tuple[str, ...]:
        """Source columns needed by the recipes, in order of first use."""
        seen = (source for column in self.fields for recipe in column.of for source in recipe.sources)
        return tuple(dict.fromkeys(seen))

    def select(self, *names: str) -> Schema:
        """Keep some columns only."""
        return Schema(tuple(self[name] for name in names))

    def to_json(self) -> list[dict[str, Any]]:
        """Return a JSON-able description."""
        return [column.to_json() for column in self.fields]

    @classmethod
    def from_json(cls, rows: list[dict[str, Any]]) -> Schema:
        """Inverse of :meth:`to_json`."""
        return cls(tuple(Field.from_json(row) for row in rows))
