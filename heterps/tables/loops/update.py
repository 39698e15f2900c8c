"""The loops of the built-in rules: one pass over the values of each row. Formulas are in ``rules.py``.

Two habits make them vectorise: positions are unsigned (a signed index may be negative, which numba has to check), and
numbers are read before the loop (a store to ``w`` could change ``p`` for all the compiler knows).

Sums over a row go through eight running sums in a fixed order, so that results do not depend on how a compiler
vectorises and stay the same bits on any number of hosts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import inline
from heterps.tables.loops.vector_lanes import bound, step_row

__all__ = ["BUILT_IN", "sum_squares"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
Pos = np.uint64
ONE = np.float32(1)
ZERO = np.float32(0)


@inline
def sum_squares(g: F32, g0: Pos, n: Pos) -> Any:
    """Sum of squares in a fixed order."""
    a, b, c, d = ZERO, ZERO, ZERO, ZERO
    e, f, u, v = ZERO, ZERO, ZERO, ZERO
    whole = n & ~np.uint64(7)
    for j in range(np.uint64(0), whole, np.uint64(8)):
        i = g0 + j
        a += g[i] * g[i]
        b += g[i + np.uint64(1)] * g[i + np.uint64(1)]
        c += g[i + np.uint64(2)] * g[i + np.uint64(2)]
        d += g[i + np.uint64(3)] * g[i + np.uint64(3)]
        e += g[i + np.uint64(4)] * g[i + np.uint64(4)]
        f += g[i + np.uint64(5)] * g[i + np.uint64(5)]
        u += g[i + np.uint64(6)] * g[i + np.uint64(6)]
        v += g[i + np.uint64(7)] * g[i + np.uint64(7)]
    for j in range(whole, n):
        a += g[g0 + j] * g[g0 + j]
    return ((a + e) + (b + f)) + ((c + u) + (d + v))


@inline
def step_by(p: F32, k: int, w: F32, w0: Pos, g: F32, g0: Pos, n: Pos, rate: np.float32) -> None:
    """``w -= rate * g`` within the bounds."""
    step_row(g, g0, w, w0, n, rate, p[k, 0], p[k, 1])


@inline
def sgd(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.SGD`."""
    step_by(p, k, w, w0, g, g0, n, p[k, 2])


@inline
def adagrad(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.AdaGrad`."""
    initial = p[k, 3]
    inverse = ONE / scale if p[k, 4] > ZERO and scale > ZERO else ONE
    rate = p[k, 2] * inverse * np.sqrt(initial / (initial + s[s0]))
    s[s0] += sum_squares(g, g0, n) * inverse * inverse / np.float32(n)
    step_by(p, k, w, w0, g, g0, n, rate)


@inline
def std_adagrad(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.StdAdaGrad`."""
    lower, upper, rate, initial = p[k, 0], p[k, 1], p[k, 2], p[k, 3]
    inverse = ONE / scale if p[k, 4] > ZERO and scale > ZERO else ONE
    for i in range(n):
        x, total = g[g0 + i] * inverse, s[s0 + i]
        s[s0 + i] = total + x * x
        w[w0 + i] = bound(lower, upper, w[w0 + i] - rate * x * np.sqrt(initial / (initial + total)))


@inline
def element_adagrad(
    p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32
) -> None:
    """Apply :class:`~heterps.tables.specs.rules.ElementAdaGrad`."""
    lower, upper, rate, eps = p[k, 0], p[k, 1], p[k, 2], p[k, 3]
    for i in range(n):
        x = g[g0 + i]
        total = s[s0 + i] + x * x
        s[s0 + i] = total
        w[w0 + i] = bound(lower, upper, w[w0 + i] - rate * x / (np.sqrt(total) + eps))


@inline
def row_wise_adagrad(
    p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32
) -> None:
    """Apply :class:`~heterps.tables.specs.rules.RowWiseAdaGrad`."""
    total = s[s0] + sum_squares(g, g0, n) / np.float32(n)
    s[s0] = total
    step_by(p, k, w, w0, g, g0, n, p[k, 2] / (np.sqrt(total) + p[k, 3]))


@inline
def adam(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.Adam`."""
    lower, upper, b1, b2, eps = p[k, 0], p[k, 1], p[k, 3], p[k, 4], p[k, 5]
    powers = s0 + n + n
    rate = p[k, 2] * np.sqrt(ONE - s[powers + np.uint64(1)]) / (ONE - s[powers])
    for i in range(n):
        x = g[g0 + i]
        m = b1 * s[s0 + i] + (ONE - b1) * x
        v = b2 * s[s0 + n + i] + (ONE - b2) * x * x
        s[s0 + i] = m
        s[s0 + n + i] = v
        w[w0 + i] = bound(lower, upper, w[w0 + i] - rate * m / (np.sqrt(v) + eps))
    s[powers] *= b1
    s[powers + np.uint64(1)] *= b2


@inline
def shared_adam(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.SharedAdam`."""
    lower, upper, b1, b2, eps = p[k, 0], p[k, 1], p[k, 3], p[k, 4], p[k, 5]
    v0, power = s0 + np.uint64(1), s0 + np.uint64(2)
    old_m, old_v = s[s0], s[v0]
    rate = p[k, 2] * np.sqrt(ONE - s[power + np.uint64(1)]) / (ONE - s[power])
    sum_m, sum_v = ZERO, ZERO
    for i in range(n):
        x = g[g0 + i]
        m = b1 * old_m + (ONE - b1) * x
        v = b2 * old_v + (ONE - b2) * x * x
        w[w0 + i] = bound(lower, upper, w[w0 + i] - rate * m / (np.sqrt(v) + eps))
        sum_m += m
        sum_v += v
    s[s0] = sum_m / np.float32(n)
    s[v0] = sum_v / np.float32(n)
    s[power] *= b1
    s[power + np.uint64(1)] *= b2


@inline
def ftrl(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.FTRL`."""
    lower, upper, alpha, beta, l1, l2 = p[k, 0], p[k, 1], p[k, 2], p[k, 3], p[k, 4], p[k, 5]
    for i in range(n):
        x, total = g[g0 + i], s[s0 + n + i]
        grown = total + x * x
        z = s[s0 + i] + x - (np.sqrt(grown) - np.sqrt(total)) / alpha * w[w0 + i]
        s[s0 + i] = z
        s[s0 + n + i] = grown
        value = -(z - np.copysign(l1, z)) / ((beta + np.sqrt(grown)) / alpha + l2)
        w[w0 + i] = bound(lower, upper, value if abs(z) > l1 else ZERO)


@inline
def momentum(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.Momentum`."""
    lower, upper, rate, mu, l2 = p[k, 0], p[k, 1], p[k, 2], p[k, 3], p[k, 4]
    for i in range(n):
        v = mu * s[s0 + i] + g[g0 + i] + l2 * w[w0 + i]
        s[s0 + i] = v
        w[w0 + i] = bound(lower, upper, w[w0 + i] - rate * v)


@inline
def add(p: F32, k: int, w: F32, w0: Pos, s: F32, s0: Pos, g: F32, g0: Pos, n: Pos, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.specs.rules.Sum`."""
    step_by(p, k, w, w0, g, g0, n, -ONE)


#: The built-in rules by ``Rule.code``, each over one row.
BUILT_IN = (
    sgd,
    adagrad,
    std_adagrad,
    element_adagrad,
    row_wise_adagrad,
    adam,
    shared_adam,
    ftrl,
    momentum,
    add,
)
