"""First values of a row: a function of (seed, table, id, column), so the same anywhere and in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop, inline, inner_loop
from heterps.errors import TableError
from heterps.fields import Finite, Found, Natural, NotNegative, check_fields
from heterps.tables.hashing import key_of, mix
from heterps.tables.specs.registry import Registry

__all__ = ["INITIALISERS", "Constant", "Initialiser", "Normal", "Uniform", "Xavier", "Zeros", "draw", "first_values"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Initialiser:
    """Base: values are drawn uniformly (``code`` 0) or normally (1) with two numbers."""

    code: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"initialiser {type(self).__name__}")

    @classmethod
    def from_found(cls, found: Found) -> Initialiser:
        """Read an initialiser where a document has one."""
        return INITIALISERS.from_json(found)

    def numbers(self, dim: int) -> tuple[float, float]:
        """Return lower and upper limit (uniform), or mean and standard deviation (normal), for rows of ``dim``."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the initialiser as plain data."""
        return INITIALISERS.to_json(self)


INITIALISERS: Registry[Initialiser] = Registry("initialiser")


@INITIALISERS.add
@dataclass(frozen=True)
class Zeros(Initialiser):
    """All zero."""

    def numbers(self, dim: int) -> tuple[float, float]:
        """Return the limits 0 and 0."""
        return 0.0, 0.0


@INITIALISERS.add
@dataclass(frozen=True)
class Constant(Initialiser):
    """All the same."""

    value: Finite = 0.0

    def numbers(self, dim: int) -> tuple[float, float]:
        """Return the value twice."""
        return self.value, self.value


@INITIALISERS.add
@dataclass(frozen=True)
class Uniform(Initialiser):
    """Uniform between ``-limit`` and ``limit``."""

    limit: NotNegative = 1e-4

    def numbers(self, dim: int) -> tuple[float, float]:
        """Return both limits."""
        return -self.limit, self.limit


@INITIALISERS.add
@dataclass(frozen=True)
class Normal(Initialiser):
    """Normal with mean 0."""

    code: ClassVar[int] = 1
    std: NotNegative = 0.01

    def numbers(self, dim: int) -> tuple[float, float]:
        """Return mean and standard deviation."""
        return 0.0, self.std


@INITIALISERS.add
@dataclass(frozen=True)
class Xavier(Initialiser):
    """Uniform within ``sqrt(6 / (fan_in + fan_out))``; either is the row's own width where not given."""

    fan_in: Natural = 0
    fan_out: Natural = 0

    def numbers(self, dim: int) -> tuple[float, float]:
        """Return both limits."""
        limit = math.sqrt(6.0 / ((self.fan_in or dim) + (self.fan_out or dim)))
        return -limit, limit


@inline
def unit(bits: np.uint64) -> Any:
    """Return a number from the open interval (0, 1) made of the low 32 bits."""
    return (np.float64(bits & np.uint64(0xFFFFFFFF)) + 0.5) * (1.0 / 4294967296.0)


@inner_loop
def draw(code: int, a: float, b: float, key: np.uint64, id_: np.uint64, out: F32, at: int, n: int) -> None:
    """Write the first ``n`` values of a row to ``out[at:]``; one hash gives two of them."""
    base = mix(id_ ^ key)
    for i in range(0, n, 2):
        bits = mix(base + np.uint64(i))
        first, second = unit(bits), unit(bits >> np.uint64(32))
        if code == 0:
            first, second = a + (b - a) * first, a + (b - a) * second
        else:
            radius, angle = b * math.sqrt(-2.0 * math.log(first)), 6.283185307179586 * second
            first, second = a + radius * math.cos(angle), a + radius * math.sin(angle)
        out[at + i] = np.float32(first)
        if i + 1 < n:
            out[at + i + 1] = np.float32(second)


@entry_loop
def _draw_all(code: int, a: float, b: float, key: np.uint64, ids: U64, out: F32, n: int) -> None:
    for i in range(ids.size):
        draw(code, a, b, key, ids[i], out, i * n, n)


def first_values(init: Initialiser, dim: int, *, seed: int, table: str, ids: U64) -> F32:
    """Return the first values ``[len(ids), dim]`` of rows of a table."""
    a, b = init.numbers(dim)
    out = np.empty((len(ids), dim), np.float32)
    _draw_all(init.code, a, b, np.uint64(key_of(seed, table)), ids, out.ravel(), dim)
    return out
