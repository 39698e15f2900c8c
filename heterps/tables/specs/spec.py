"""What a table is, as values: tables, groups of tables looked up by the same ids, dense parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from heterps.errors import TableError
from heterps.fields import Count, Found, check_fields
from heterps.tables.specs.accessor import Accessor
from heterps.tables.specs.entries import Entry
from heterps.tables.specs.initialisers import Initialiser, Uniform, Zeros
from heterps.tables.specs.rules import SGD, Rule

__all__ = ["N_SHARDS", "DenseSpec", "GroupSpec", "Storage", "TableSpec"]

#: Logical shards of a group unless told otherwise.
N_SHARDS = 1024
#: Where rows are: in memory or on disk, and of these some in the memory of a GPU while they are trained there.
Storage = Literal["memory", "ssd", "gpu", "gpu+ssd"]


@dataclass(frozen=True)
class TableSpec:
    """A sparse table: a row of ``dim`` values for each id.

    Parameters
    ----------
    name
        Unique in the model; part of the key of a row's first values.
    dim
        Values of a row.
    rule, init
        How a gradient changes a row, and its first values.
    entry
        Which new ids get a row (default: all).
    accessor
        Counters and what follows from them (default: none are kept).
    dtype
        How values are stored, "float32" or "float16"; arithmetic is always float32.
    """

    name: str
    dim: Count
    rule: Rule = field(default_factory=SGD)
    init: Initialiser = field(default_factory=Uniform)
    entry: Entry | None = None
    accessor: Accessor | None = None
    dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"table {self.name!r}")
        if self.accessor is not None and not 0 <= self.accessor.embed <= self.dim:
            raise TableError(f"table {self.name!r}: accessor.embed={self.accessor.embed} does not fit dim={self.dim}")

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain data."""
        return {
            "name": self.name,
            "dim": self.dim,
            "rule": self.rule.to_json(),
            "init": self.init.to_json(),
            "entry": None if self.entry is None else self.entry.to_json(),
            "accessor": None if self.accessor is None else self.accessor.to_json(),
            "dtype": self.dtype,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | Found) -> TableSpec:
        """Inverse of :meth:`to_json`."""
        return Found.of(data, TableError, "table").make(cls)


@dataclass(frozen=True)
class GroupSpec:
    """Tables looked up by the same ids: one index, one row holding the values of all.

    Parameters
    ----------
    name
        Unique in the model.
    tables
        In the order of their columns.
    n_shards
        Logical shards, fixed for the life of the tables.
    storage
        "memory", or "ssd": the rows used most in memory, the others on disk. "gpu": rows are trained in the memory of a
        GPU, and all of them are in the memory of its worker below; "gpu+ssd": as with "ssd" there.
    budget
        Rows a shard host may hold; None for as many as fit.
    when_full
        "refuse" inserts with an error, or evict: "lowest_score" (needs an accessor) or "least_recent".
    create_on
        "pull": a new id gets its row, at its first values, when a trainer asks for it. "push": it reads as zeros until
        a gradient arrives. An entry always decides at the push.
    """

    name: str
    tables: tuple[TableSpec, ...]
    n_shards: Count = N_SHARDS
    storage: Storage = "memory"
    budget: Count | None = None
    when_full: Literal["refuse", "lowest_score", "least_recent"] = "refuse"
    create_on: Literal["pull", "push"] = "pull"

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"group {self.name!r}")
        object.__setattr__(self, "tables", tuple(self.tables))
        self._check_tables()
        if self.when_full == "lowest_score" and self.accessor is None:
            raise TableError(f"group {self.name!r}: when_full='lowest_score' needs a table with an accessor")

    def _check_tables(self) -> None:
        if not self.tables:
            raise TableError(f"group {self.name!r} has no tables")
        names = [table.name for table in self.tables]
        if len(set(names)) < len(names):
            raise TableError(f"group {self.name!r} has two tables of one name: {names}")
        for what in ("entry", "accessor", "dtype"):
            values = {getattr(table, what) for table in self.tables} - {None}
            if len(values) > 1:
                raise TableError(f"group {self.name!r}: its tables share rows but differ in {what}: {values}")

    @property
    def on_gpu(self) -> bool:
        """Whether rows are to be trained in the memory of a GPU."""
        return self.storage.startswith("gpu")

    @property
    def on_disk(self) -> bool:
        """Whether rows are kept in a file, whatever is above it."""
        return self.storage.endswith("ssd")

    @property
    def width(self) -> int:
        """Values of a row over all tables."""
        return sum(table.dim for table in self.tables)

    @property
    def entry(self) -> Entry | None:
        """What admits new ids to the group."""
        return next((table.entry for table in self.tables if table.entry is not None), None)

    @property
    def accessor(self) -> Accessor | None:
        """The accessor of the group's rows."""
        return next((table.accessor for table in self.tables if table.accessor is not None), None)

    @property
    def dtype(self) -> str:
        """How values are stored."""
        return self.tables[0].dtype

    def table(self, name: str) -> TableSpec:
        """Return one of the tables."""
        for table in self.tables:
            if table.name == name:
                return table
        raise TableError(f"group {self.name!r} has no table {name!r}; it has {[t.name for t in self.tables]}")

    def columns(self, table: str) -> slice:
        """Return where the values of a table stand in a row."""
        self.table(table)
        start = 0
        for each in self.tables:
            if each.name == table:
                break
            start += each.dim
        return slice(start, start + self.table(table).dim)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain data."""
        tables = [table.to_json() for table in self.tables]
        return {"name": self.name, "tables": tables, "n_shards": self.n_shards} | {
            name: getattr(self, name) for name in ("storage", "when_full", "create_on", "budget")
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | Found) -> GroupSpec:
        """Inverse of :meth:`to_json`."""
        return Found.of(data, TableError, "group").make(cls)


@dataclass(frozen=True)
class DenseSpec:
    """A dense parameter. A rule that keeps one slot a row takes its first axis as rows (a vector is one row)."""

    name: str
    shape: tuple[Count, ...]
    rule: Rule = field(default_factory=SGD)
    init: Initialiser = field(default_factory=Zeros)

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"dense parameter {self.name!r}")
        object.__setattr__(self, "shape", tuple(int(n) for n in self.shape))

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """Rows a row-wise rule sees."""
        return self.shape[0] if len(self.shape) > 1 else 1

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain data."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "rule": self.rule.to_json(),
            "init": self.init.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | Found) -> DenseSpec:
        """Inverse of :meth:`to_json`."""
        return Found.of(data, TableError, "dense parameter").make(cls)
