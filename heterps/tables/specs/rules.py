"""Rules: how a gradient changes a row. Each is a frozen value; the loops are in ``update.py``.

A rule says how many float32 slots it keeps beside the ``n`` values of a row, what they start at, and which numbers its
loop needs at a step. In the formulas ``w`` is a value, ``g`` its gradient, sums and means go over one row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.fields import Found, NotNegative, Positive, Range, check_fields
from heterps.tables.specs.registry import Registry
from heterps.tables.specs.schedules import Rate, rate_at, rate_to_json, scaled

__all__ = [
    "FTRL",
    "RULES",
    "SGD",
    "AdaGrad",
    "Adam",
    "ElementAdaGrad",
    "Momentum",
    "RowWiseAdaGrad",
    "Rule",
    "SharedAdam",
    "StdAdaGrad",
    "Sum",
]

#: Numbers a rule may hand to its loop: lower and upper bound of a value first.
NUMBERS = 8
Bounds = tuple[float, float]
Decay = Annotated[float, Range(at_least=0, below=1)]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Base of all rules.

    A rule of your own derives from this, is a frozen dataclass decorated with ``@RULES.add``, and gives ``loop``: a
    numba function ``loop(p, k, w, w0, s, s0, g, g0, n, scale)`` that changes ``w[w0:w0 + n]`` and
    ``s[s0:s0 + slots(n)]`` by the gradient ``g[g0:g0 + n]`` (all float32, flat), with ``p[k]`` what :meth:`packed`
    returned and ``scale`` the number of shows behind the gradient. Bounds are kept for it.

    ``heterps.testing.RuleContract`` tests it.

    Parameters
    ----------
    bounds
        Values are kept between these two numbers after each update; None for no bounds.
    """

    #: Number by which ``update.py`` knows a built-in loop; rules from outside keep -1 and give ``loop``.
    code: ClassVar[int] = -1
    loop: ClassVar[Any] = None
    #: For tables on a device: what the loop does, in CUDA, between the braces of
    #: ``(const float* p, float* w, float* s, const float* g, int n, float scale)``.
    cuda: ClassVar[str | None] = None

    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"rule {type(self).__name__}")
        if self.bounds is not None and self.bounds[0] > self.bounds[1]:
            raise TableError(f"rule {type(self).__name__}: bounds are {self.bounds}, expected the lower one first")

    def slots(self, n: int) -> int:
        """Return how many float32 slots a row of ``n`` values has."""
        return 0

    def first_slots(self, n: int) -> Floats:
        """Return the slots of a new row."""
        return np.zeros(self.slots(n), np.float32)

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return the numbers of the formula at a step, at most six."""
        raise NotImplementedError

    def packed(self, step: int) -> Floats:
        """Return bounds and numbers as the array the loop takes."""
        lower, upper = self.bounds if self.bounds is not None else (-math.inf, math.inf)
        out = np.zeros(NUMBERS, np.float32)
        values = (lower, upper, *self.numbers(step))
        if len(values) > NUMBERS:
            raise TableError(f"{type(self).__name__}.numbers returned {len(values) - 2} numbers; at most six fit")
        out[: len(values)] = values
        return out

    def at_rate(self, factor: float) -> Rule:
        """Return the rule with its learning rate times a factor; one without ``lr`` is what it is."""
        if factor == 1.0 or not hasattr(self, "lr"):
            return self
        changed: dict[str, Any] = {"lr": scaled(self.lr, factor)}
        return replace(self, **changed)

    @property
    def scheduled(self) -> bool:
        """Whether the numbers change from step to step."""
        return not isinstance(getattr(self, "lr", 0.0), (int, float))

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        return RULES.to_json(self) | ({"lr": rate_to_json(self.lr)} if hasattr(self, "lr") else {})

    @classmethod
    def from_found(cls, found: Found) -> Rule:
        """Read a rule where a document has one."""
        return RULES.from_json(found)


RULES: Registry[Rule] = Registry("rule")


@RULES.add
@dataclass(frozen=True)
class SGD(Rule):
    """``w -= lr * g``."""

    code: ClassVar[int] = 0
    lr: Rate = 0.01

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr."""
        return (rate_at(self.lr, step),)


@RULES.add
@dataclass(frozen=True)
class AdaGrad(Rule):
    """One sum a row: ``w -= lr * g/scale * sqrt(initial / (initial + G))``, then ``G += mean((g/scale)**2)``.

    ``scale`` is the number of shows behind the gradient if ``show_scale``, else 1.
    """

    code: ClassVar[int] = 1
    lr: Rate = 0.05
    initial: Positive = 3.0
    show_scale: bool = True

    def slots(self, n: int) -> int:
        """Return 1: G."""
        return 1

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr, initial, whether to scale."""
        return rate_at(self.lr, step), self.initial, float(self.show_scale)


@RULES.add
@dataclass(frozen=True)
class StdAdaGrad(AdaGrad):
    """As :class:`AdaGrad` with a sum for each value: ``w -= lr * g/scale * sqrt(initial / (initial + G))``."""

    code: ClassVar[int] = 2

    def slots(self, n: int) -> int:
        """Return one G a value."""
        return n


@RULES.add
@dataclass(frozen=True)
class ElementAdaGrad(Rule):
    """``G += g**2; w -= lr * g / (sqrt(G) + eps)`` for each value; G starts at ``initial``."""

    code: ClassVar[int] = 3
    lr: Rate = 0.01
    initial: NotNegative = 0.0
    eps: NotNegative = 1e-10

    def slots(self, n: int) -> int:
        """Return one G a value."""
        return n

    def first_slots(self, n: int) -> Floats:
        """Return G as it starts."""
        return np.full(n, self.initial, np.float32)

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr, eps."""
        return rate_at(self.lr, step), self.eps


@RULES.add
@dataclass(frozen=True)
class RowWiseAdaGrad(Rule):
    """One sum a row, as in FBGEMM: ``G += mean(g**2); w -= lr * g / (sqrt(G) + eps)``."""

    code: ClassVar[int] = 4
    lr: Rate = 0.01
    eps: NotNegative = 1e-8

    def slots(self, n: int) -> int:
        """Return 1: G."""
        return 1

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr, eps."""
        return rate_at(self.lr, step), self.eps


@RULES.add
@dataclass(frozen=True)
class Adam(Rule):
    """Adam that moves a row only when it has a gradient; t counts the row's own updates.

    ``m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g**2; w -= lr * sqrt(1-b2**t)/(1-b1**t) * m / (sqrt(v) + eps)``.
    """

    code: ClassVar[int] = 5
    lr: Rate = 0.001
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    eps: NotNegative = 1e-8

    def slots(self, n: int) -> int:
        """Return m and v for each value, then the powers of beta1 and beta2."""
        return 2 * n + 2

    def first_slots(self, n: int) -> Floats:
        """Return zero moments and first powers."""
        out = np.zeros(self.slots(n), np.float32)
        out[-2:] = self.beta1, self.beta2
        return out

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr, beta1, beta2, eps."""
        return rate_at(self.lr, step), self.beta1, self.beta2, self.eps


@RULES.add
@dataclass(frozen=True)
class SharedAdam(Adam):
    """Adam with one m and one v a row.

    Each value moves by ``m' = b1*m + (1-b1)*g`` and ``v' = b2*v + (1-b2)*g**2`` as in :class:`Adam`; the row keeps
    ``m = mean(m')`` and ``v = mean(v')``.
    """

    code: ClassVar[int] = 6

    def slots(self, n: int) -> int:
        """Return m, v and the two powers."""
        return 4


@RULES.add
@dataclass(frozen=True)
class FTRL(Rule):
    """FTRL-proximal, for sparse weights.

    ``s = (sqrt(N + g**2) - sqrt(N)) / alpha; z += g - s*w; N += g**2;``
    ``w = 0 if |z| <= l1 else -(z - sign(z)*l1) / ((beta + sqrt(N)) / alpha + l2)`` with ``alpha = lr``.
    """

    code: ClassVar[int] = 7
    lr: Rate = 0.05
    beta: NotNegative = 1.0
    l1: NotNegative = 0.0
    l2: NotNegative = 0.0

    def slots(self, n: int) -> int:
        """Return z and N for each value."""
        return 2 * n

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr, beta, l1, l2."""
        return rate_at(self.lr, step), self.beta, self.l1, self.l2


@RULES.add
@dataclass(frozen=True)
class Momentum(Rule):
    """``v = momentum*v + g + l2*w; w -= lr * v``."""

    code: ClassVar[int] = 8
    lr: Rate = 0.01
    momentum: Decay = 0.9
    l2: NotNegative = 0.0

    def slots(self, n: int) -> int:
        """Return one v a value."""
        return n

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return lr, momentum, l2."""
        return rate_at(self.lr, step), self.momentum, self.l2


@RULES.add
@dataclass(frozen=True)
class Sum(Rule):
    """``w += g``: what Geo's deltas and counters need."""

    code: ClassVar[int] = 9

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return nothing."""
        return ()
