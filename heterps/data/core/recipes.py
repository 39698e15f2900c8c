"""How one element of a batch column is made from source columns: small frozen values.

Text readers compile them to a table of steps for one numba loop (:mod:`heterps.data.text.recipe_steps`), columnar
readers evaluate them column by column (:mod:`heterps.data.columnar.arrow_recipes`); both give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from heterps.data.core.value_hash import RESERVED_ID, cross_ids, hash_bytes, number_hash, salt_of
from heterps.errors import DataError, UnknownKindError

__all__ = [
    "RECIPES",
    "Bucket",
    "Categories",
    "Category",
    "Cross",
    "Id",
    "Ids",
    "Match",
    "Number",
    "Recipe",
    "Salted",
    "recipe_from_json",
]

RECIPES: dict[str, type[Recipe]] = {}


@dataclass(frozen=True)
class Recipe:
    """One way to make an element; subclasses are values with a ``kind`` name."""

    kind: ClassVar[str] = ""
    makes_id: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        RECIPES[cls.kind] = cls

    @property
    def sources(self) -> tuple[str, ...]:
        """Source columns read."""
        return (str(vars(self)["source"]),)

    @property
    def salt(self) -> int:
        """Salt of the ids made: the column's, unless one was named."""
        named = vars(self).get("salted", "")
        return salt_of(named or self.label)

    @property
    def label(self) -> str:
        """A short name for messages and importance tables; also what salts the ids."""
        return self.sources[0]

    @property
    def absent(self) -> int:
        """The id made where the source is missing."""
        return hash_bytes(b"", self.salt) if self.makes_id else 0

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able description."""
        return {"kind": self.kind} | {item.name: _plain(getattr(self, item.name)) for item in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Recipe):
        return value.to_json()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return recipe_from_json(value)
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def recipe_from_json(value: dict[str, Any]) -> Recipe:
    """Inverse of ``Recipe.to_json``."""
    kind = value.get("kind")
    if kind not in RECIPES:
        raise UnknownKindError(f"no recipe is called {kind!r}; there are {', '.join(sorted(RECIPES))}")
    return RECIPES[kind](**{name: _frozen(item) for name, item in value.items() if name != "kind"})


@dataclass(frozen=True)
class Number(Recipe):
    """A float: ``(f(x) - mean) / std`` where f is the identity or ``sign(x) * log(1 + |x|)``.

    Where the source is missing it is ``missing``; without that 0, and in a label or weight the row is bad.
    """

    source: str
    log: bool = False
    mean: float = 0.0
    std: float = 1.0
    missing: float | None = None

    kind: ClassVar[str] = "number"
    makes_id: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise DataError(f"Number({self.source!r}): std is {self.std}, it must be positive")


@dataclass(frozen=True)
class Match(Recipe):
    """1.0 where the text of a column equals ``value``, else 0.0: labels such as ``>50K``; missing as for Number."""

    source: str
    value: str
    missing: float | None = None

    kind: ClassVar[str] = "match"
    makes_id: ClassVar[bool] = False


@dataclass(frozen=True)
class Category(Recipe):
    """The hash of a column's text, salted with the column's name (or ``salted``)."""

    source: str
    salted: str = ""

    kind: ClassVar[str] = "category"


@dataclass(frozen=True)
class Categories(Recipe):
    """The hashes of a cell's parts (``"Action|Comedy"``): for ragged columns."""

    source: str
    separator: str = "|"
    salted: str = ""

    kind: ClassVar[str] = "categories"

    def __post_init__(self) -> None:
        if len(self.separator.encode()) != 1:
            raise DataError(f"Categories({self.source!r}): the separator must be one byte, got {self.separator!r}")


@dataclass(frozen=True)
class Id(Recipe):
    """An integer 0 <= id < 2**64 - 1 as it stands; where it is missing ``missing``, and without that a bad line."""

    source: str
    missing: int | None = None

    kind: ClassVar[str] = "id"

    @property
    def absent(self) -> int:
        """The id given for missing values."""
        return self.missing or 0


@dataclass(frozen=True)
class Salted(Recipe):
    """An integer mixed with its column's name: for integer categories of several columns that share a table."""

    source: str
    salted: str = ""

    kind: ClassVar[str] = "salted"

    @property
    def absent(self) -> int:
        """Missing counts as the reserved id, which no value can be."""
        return number_hash(RESERVED_ID, self.salt)


@dataclass(frozen=True)
class Ids(Recipe):
    """Integers as they stand, separated in a cell (``"3|14|15"``) or a list column: for ragged columns."""

    source: str
    separator: str = "|"

    kind: ClassVar[str] = "ids"

    def __post_init__(self) -> None:
        if len(self.separator.encode()) != 1:
            raise DataError(f"Ids({self.source!r}): the separator must be one byte, got {self.separator!r}")


@dataclass(frozen=True)
class Bucket(Recipe):
    """The id of the bucket a number falls in: bucket i holds ``bounds[i-1] <= x < bounds[i]``; missing is its own."""

    source: str
    bounds: tuple[float, ...]
    salted: str = ""

    kind: ClassVar[str] = "bucket"

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip(self.bounds, self.bounds[1:], strict=False)):
            raise DataError(f"Bucket({self.source!r}): bounds must ascend, got {self.bounds}")

    @property
    def label(self) -> str:
        """Buckets of a column have ids of their own, apart from its plain categories."""
        return f"{self.source}/{len(self.bounds)}"

    @property
    def absent(self) -> int:
        """The bucket behind the last."""
        return number_hash(len(self.bounds) + 1, self.salt)


@dataclass(frozen=True)
class Cross(Recipe):
    """The id of a combination of ids, vocabulary-free: ``Cross((Category("education"), Category("occupation")))``."""

    parts: tuple[Recipe, ...]
    salted: str = ""

    kind: ClassVar[str] = "cross"

    def __post_init__(self) -> None:
        for part in self.parts:
            if not part.makes_id or isinstance(part, (Categories, Ids)):
                raise DataError(f"Cross can only combine recipes that make one id, not {part}")

    @property
    def sources(self) -> tuple[str, ...]:
        """Source columns of all parts."""
        return tuple(dict.fromkeys(source for part in self.parts for source in part.sources))

    @property
    def label(self) -> str:
        """The labels of the parts, joined."""
        return " x ".join(part.label for part in self.parts)

    @property
    def absent(self) -> int:
        """The combination of all parts missing."""
        return cross_ids(*(part.absent for part in self.parts), salt=self.salt)
