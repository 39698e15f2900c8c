"""The built-in rules as array functions, for devices that run no CUDA: all rows of a parameter at once.

Formulas are those of ``specs/rules.py``. Sums over a row are the library's own, so results are within rounding of the
loops, not their bits; rules without such sums have the bits wherever the library rounds as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.errors import TableError
from heterps.tables.specs.rules import Rule

__all__ = ["array_rule"]

Numbers = list[float]  # bounds first; Python's own, so that arrays stay what they are
#: ``(xp, p, w, s, g)``: numbers of the rule, values ``[rows, n]``, slots ``[rows, slots]``, gradients. Returns the new
#: values and slots.
ArrayRule = Callable[[Namespace, Numbers, Array, Array, Array], tuple[Array, Array]]


def _mean_squares(xp: Namespace, g: Array) -> Array:
    return xp.sum(g * g, axis=1, keepdims=True) / float(g.shape[1])


def _sgd(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    return w - p[2] * g, s


def _adagrad(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    rate = p[2] * xp.sqrt(p[3] / (p[3] + s))
    return w - rate * g, s + _mean_squares(xp, g)


def _std_adagrad(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    return w - p[2] * g * xp.sqrt(p[3] / (p[3] + s)), s + g * g


def _element_adagrad(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    total = s + g * g
    return w - p[2] * g / (xp.sqrt(total) + p[3]), total


def _row_wise_adagrad(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    total = s + _mean_squares(xp, g)
    return w - p[2] / (xp.sqrt(total) + p[3]) * g, total


def _adam(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    n, one = g.shape[1], 1.0
    rate = p[2] * xp.sqrt(one - s[:, -1:]) / (one - s[:, -2:-1])
    m = p[3] * s[:, :n] + (one - p[3]) * g
    v = p[4] * s[:, n : 2 * n] + (one - p[4]) * g * g
    slots = xp.concatenate([m, v, p[3] * s[:, -2:-1], p[4] * s[:, -1:]], axis=1)
    return w - rate * m / (xp.sqrt(v) + p[5]), slots


def _shared_adam(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    n, one = float(g.shape[1]), 1.0
    rate = p[2] * xp.sqrt(one - s[:, 3:4]) / (one - s[:, 2:3])
    m = p[3] * s[:, 0:1] + (one - p[3]) * g
    v = p[4] * s[:, 1:2] + (one - p[4]) * g * g
    means = [xp.sum(moment, axis=1, keepdims=True) / n for moment in (m, v)]
    slots = xp.concatenate([*means, p[3] * s[:, 2:3], p[4] * s[:, 3:4]], axis=1)
    return w - rate * m / (xp.sqrt(v) + p[5]), slots


def _ftrl(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    n = g.shape[1]
    alpha, beta, l1, l2 = p[2:6]
    total = s[:, n:]
    grown = total + g * g
    z = s[:, :n] + g - (xp.sqrt(grown) - xp.sqrt(total)) / alpha * w
    value = -(z - xp.copysign(xp.full(z.shape, l1, np.float32), z)) / ((beta + xp.sqrt(grown)) / alpha + l2)
    return xp.where(xp.abs(z) > l1, value, xp.zeros_like(value)), xp.concatenate([z, grown], axis=1)


def _momentum(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    v = p[3] * s + g + p[4] * w
    return w - p[2] * v, v


def _sum(xp: Namespace, p: Numbers, w: Array, s: Array, g: Array) -> tuple[Array, Array]:
    return w + g, s


#: By ``Rule.code``.
_RULES: tuple[ArrayRule, ...] = (
    _sgd,
    _adagrad,
    _std_adagrad,
    _element_adagrad,
    _row_wise_adagrad,
    _adam,
    _shared_adam,
    _ftrl,
    _momentum,
    _sum,
)


def array_rule(rule: Rule) -> ArrayRule:
    """Return a built-in rule as array functions; refuse one from outside by name."""
    if rule.code < 0:
        name = type(rule).__name__
        raise TableError(
            f"rule {name} is not built in, and this device runs no CUDA: parameters that it changes cannot be on it; "
            "leave them on shard hosts"
        )
    return _RULES[rule.code]
