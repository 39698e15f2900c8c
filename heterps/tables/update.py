"""The loops of the built-in rules: one pass over the values of each row. Formulas are in ``rules.py``.

Sums over a row go through eight running sums in a fixed order, so that results do not depend on how a compiler
vectorises and stay the same bits on any number of hosts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["sum_squares", "update_rows"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
ONE = np.float32(1)
ZERO = np.float32(0)


@njit(nogil=True, cache=True)
def bound(p: F32, k: int, w: np.float32) -> Any:
    """Keep a value between the rule's bounds; NaN stays NaN."""
    if w < p[k, 0]:
        return p[k, 0]
    return p[k, 1] if w > p[k, 1] else w


@njit(nogil=True, cache=True)
def sum_squares(g: F32, g0: np.int64, n: np.int64) -> Any:
    """Sum of squares in a fixed order."""
    a, b, c, d = ZERO, ZERO, ZERO, ZERO
    e, f, u, v = ZERO, ZERO, ZERO, ZERO
    whole = n & ~7
    for i in range(g0, g0 + whole, 8):
        a += g[i] * g[i]
        b += g[i + 1] * g[i + 1]
        c += g[i + 2] * g[i + 2]
        d += g[i + 3] * g[i + 3]
        e += g[i + 4] * g[i + 4]
        f += g[i + 5] * g[i + 5]
        u += g[i + 6] * g[i + 6]
        v += g[i + 7] * g[i + 7]
    for i in range(g0 + whole, g0 + n):
        a += g[i] * g[i]
    return ((a + e) + (b + f)) + ((c + u) + (d + v))


@njit(nogil=True, cache=True)
def step_by(p: F32, k: int, w: F32, w0: np.int64, g: F32, g0: np.int64, n: np.int64, rate: np.float32) -> None:
    """``w -= rate * g`` within the bounds."""
    for i in range(n):
        w[w0 + i] = bound(p, k, w[w0 + i] - rate * g[g0 + i])


@njit(nogil=True, cache=True)
def sgd(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.SGD`."""
    step_by(p, k, w, w0, g, g0, n, p[k, 2])


@njit(nogil=True, cache=True)
def adagrad(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.AdaGrad`."""
    inverse = ONE / scale if p[k, 4] > ZERO and scale > ZERO else ONE
    rate = p[k, 2] * inverse * np.sqrt(p[k, 3] / (p[k, 3] + s[s0]))
    step_by(p, k, w, w0, g, g0, n, rate)
    s[s0] += sum_squares(g, g0, n) * inverse * inverse / np.float32(n)


@njit(nogil=True, cache=True)
def std_adagrad(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.StdAdaGrad`."""
    inverse = ONE / scale if p[k, 4] > ZERO and scale > ZERO else ONE
    for i in range(n):
        x = g[g0 + i] * inverse
        w[w0 + i] = bound(p, k, w[w0 + i] - p[k, 2] * x * np.sqrt(p[k, 3] / (p[k, 3] + s[s0 + i])))
        s[s0 + i] += x * x


@njit(nogil=True, cache=True)
def element_adagrad(
    p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32
) -> None:
    """Apply :class:`~heterps.tables.rules.ElementAdaGrad`."""
    for i in range(n):
        x = g[g0 + i]
        total = s[s0 + i] + x * x
        s[s0 + i] = total
        w[w0 + i] = bound(p, k, w[w0 + i] - p[k, 2] * x / (np.sqrt(total) + p[k, 3]))


@njit(nogil=True, cache=True)
def row_wise_adagrad(
    p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32
) -> None:
    """Apply :class:`~heterps.tables.rules.RowWiseAdaGrad`."""
    total = s[s0] + sum_squares(g, g0, n) / np.float32(n)
    s[s0] = total
    step_by(p, k, w, w0, g, g0, n, p[k, 2] / (np.sqrt(total) + p[k, 3]))


@njit(nogil=True, cache=True)
def adam(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.Adam`."""
    b1, b2, powers = p[k, 3], p[k, 4], s0 + 2 * n
    rate = p[k, 2] * np.sqrt(ONE - s[powers + 1]) / (ONE - s[powers])
    for i in range(n):
        x = g[g0 + i]
        m = b1 * s[s0 + i] + (ONE - b1) * x
        v = b2 * s[s0 + n + i] + (ONE - b2) * x * x
        s[s0 + i] = m
        s[s0 + n + i] = v
        w[w0 + i] = bound(p, k, w[w0 + i] - rate * m / (np.sqrt(v) + p[k, 5]))
    s[powers] *= b1
    s[powers + 1] *= b2


@njit(nogil=True, cache=True)
def shared_adam(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.SharedAdam`."""
    b1, b2 = p[k, 3], p[k, 4]
    rate = p[k, 2] * np.sqrt(ONE - s[s0 + 3]) / (ONE - s[s0 + 2])
    sum_m, sum_v = ZERO, ZERO
    for i in range(n):
        x = g[g0 + i]
        m = b1 * s[s0] + (ONE - b1) * x
        v = b2 * s[s0 + 1] + (ONE - b2) * x * x
        w[w0 + i] = bound(p, k, w[w0 + i] - rate * m / (np.sqrt(v) + p[k, 5]))
        sum_m += m
        sum_v += v
    s[s0] = sum_m / np.float32(n)
    s[s0 + 1] = sum_v / np.float32(n)
    s[s0 + 2] *= b1
    s[s0 + 3] *= b2


@njit(nogil=True, cache=True)
def ftrl(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.FTRL`."""
    alpha, beta, l1, l2 = p[k, 2], p[k, 3], p[k, 4], p[k, 5]
    for i in range(n):
        x, total = g[g0 + i], s[s0 + n + i]
        grown = total + x * x
        z = s[s0 + i] + x - (np.sqrt(grown) - np.sqrt(total)) / alpha * w[w0 + i]
        s[s0 + i] = z
        s[s0 + n + i] = grown
        value = ZERO
        if abs(z) > l1:
            value = -(z - np.copysign(l1, z)) / ((beta + np.sqrt(grown)) / alpha + l2)
        w[w0 + i] = bound(p, k, value)


@njit(nogil=True, cache=True)
def momentum(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.Momentum`."""
    for i in range(n):
        v = p[k, 3] * s[s0 + i] + g[g0 + i] + p[k, 4] * w[w0 + i]
        s[s0 + i] = v
        w[w0 + i] = bound(p, k, w[w0 + i] - p[k, 2] * v)


@njit(nogil=True, cache=True)
def add(p: F32, k: int, w: F32, w0: int, s: F32, s0: int, g: F32, g0: int, n: int, scale: np.float32) -> None:
    """Apply :class:`~heterps.tables.rules.Sum`."""
    step_by(p, k, w, w0, g, g0, n, np.float32(-1))


@njit(nogil=True, cache=True)
def update_rows(
    code: int, p: F32, k: int, w: F32, ws: I64, s: F32, ss: I64, g: F32, gs: I64, scales: F32, m: int, n: int
) -> None:
    """Apply the built-in rule with this code and the numbers ``p[k]`` to ``m`` rows of ``n`` values.

    Arrays are flat; row ``j`` begins at ``w[ws[j]]``, its slots at ``s[ss[j]]``, its gradient at ``g[gs[j]]``. One call
    takes a block of rows, because a call with this many arrays costs more than the update of a row.
    """
    if code == 0:
        for j in range(m):
            sgd(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 1:
        for j in range(m):
            adagrad(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 2:
        for j in range(m):
            std_adagrad(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 3:
        for j in range(m):
            element_adagrad(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 4:
        for j in range(m):
            row_wise_adagrad(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 5:
        for j in range(m):
            adam(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 6:
        for j in range(m):
            shared_adam(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 7:
        for j in range(m):
            ftrl(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    elif code == 8:
        for j in range(m):
            momentum(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
    else:
        for j in range(m):
            add(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
