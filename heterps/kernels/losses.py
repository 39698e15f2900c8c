"""Losses from logits or predictions: the mean over the batch, the gradient, and the prediction itself.

With sample weights the loss is ``sum(w l) / n``: linear in the weights, so a sample's gradient does not depend on its
neighbours in the batch.
"""

from __future__ import annotations

import math

from heterps.device.arrays import Array
from heterps.kernels.cost import passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.pointwise import stable_sigmoid

__all__: list[str] = []


@loop
def logloss_rows(z, label, weight, weighted, p):  # type: ignore[no-untyped-def]
    """Mean of ``max(z, 0) - z y + log(1 + exp(-|z|))``; leaves the probabilities in p."""
    total = 0.0
    for i in range(z.size):
        x = float(z[i])
        e = math.exp(-abs(x))
        p[i] = 1.0 / (1.0 + e) if x >= 0 else e / (1.0 + e)
        loss = max(x, 0.0) - x * label[i] + math.log1p(e)
        total += loss * weight[i] if weighted else loss
    return total / max(z.size, 1)


@loop
def logloss_rows_backward(p, label, weight, weighted, dz):  # type: ignore[no-untyped-def]
    """``(p - y) w / n``."""
    scale = 1.0 / max(p.size, 1)
    for i in range(p.size):
        g = (p[i] - label[i]) * scale
        dz[i] = g * weight[i] if weighted else g


def _flat(x: Array) -> Array:
    return x.reshape(-1)


def _weights(c: Call) -> Array | None:
    return _flat(c.xs[2]) if len(c.xs) == 3 else None


def _mean(c: Call, losses: Array) -> None:
    weight = _weights(c)
    c.y[...] = (losses if weight is None else losses * weight).sum() / max(c.n, 1)


def _scaled(c: Call, gradient: Array) -> None:
    """Apply ``w / n`` to the gradient of each sample's own loss."""
    gradient *= 1.0 / max(c.n, 1)
    weight = _weights(c)
    if weight is not None:
        gradient *= weight.reshape(-1, *(1,) * (gradient.ndim - 1))


def _probabilities(c: Call) -> Array:
    return c.scratch("p", (c.n,), c.xs[0].dtype)


def logloss_forward(c: Call) -> None:
    """Mean binary cross entropy from logits, stable for any logit."""
    z, label, p, xp = _flat(c.xs[0]), _flat(c.xs[1]), _probabilities(c), c.xp
    if c.loops:
        weight = _weights(c)
        c.y[...] = logloss_rows(z, label, z if weight is None else weight, weight is not None, p)
        return
    stable_sigmoid(c, z, p)
    _mean(c, xp.maximum(z, 0) - z * label + xp.log1p(xp.exp(-abs(z))))


def logloss_predict(c: Call) -> None:
    """Probabilities without a label."""
    stable_sigmoid(c, _flat(c.xs[0]), _probabilities(c))


def logloss_backward(c: Call) -> None:
    """``(p - y) w / n``."""
    if c.dxs[0] is None:
        return
    label, p, dz = _flat(c.xs[1]), _probabilities(c), _flat(c.dxs[0])
    if c.loops:
        weight = _weights(c)
        logloss_rows_backward(p, label, p if weight is None else weight, weight is not None, dz)
        return
    c.xp.subtract(p, label, out=dz)
    _scaled(c, dz)


def _class_probabilities(c: Call) -> Array:
    return c.scratch("p", c.xs[0].shape, c.xs[0].dtype)


def softmax_predict(c: Call) -> None:
    """Class probabilities."""
    z, p, xp = c.xs[0], _class_probabilities(c), c.xp
    xp.subtract(z, z.max(axis=1, keepdims=True), out=p)
    xp.exp(p, out=p)
    xp.divide(p, p.sum(axis=1, keepdims=True), out=p)


def softmax_cross_entropy_forward(c: Call) -> None:
    """Mean of ``log sum exp(z) - z[label]``."""
    z, label, xp = c.xs[0], _flat(c.xs[1]).astype(c.xp.int64), c.xp
    softmax_predict(c)
    top = z.max(axis=1)
    total = xp.log(xp.exp(z - top[:, None]).sum(axis=1)) + top
    _mean(c, total - xp.take_along_axis(z, label[:, None], axis=1)[:, 0])


def softmax_cross_entropy_backward(c: Call) -> None:
    """``(p - onehot) w / n``."""
    dz, xp = c.dxs[0], c.xp
    if dz is None:
        return
    label = _flat(c.xs[1]).astype(xp.int64)
    xp.equal(xp.arange(dz.shape[1])[None, :], label[:, None], out=c.scratch("hot", dz.shape, bool))
    xp.subtract(_class_probabilities(c), c.scratch("hot", dz.shape, bool), out=dz)
    _scaled(c, dz)


def mse_forward(c: Call) -> None:
    """Mean over samples of the mean squared difference."""
    difference = c.scratch("difference", (c.n, c.xs[0].size // max(c.n, 1)), c.xs[0].dtype)
    c.xp.subtract(c.xs[0].reshape(difference.shape), c.xs[1].reshape(difference.shape), out=difference)
    _mean(c, (difference * difference).mean(axis=1))


def mse_backward(c: Call) -> None:
    """``2 (a - b) w / (n size)``, and its negative for the target."""
    difference = c.scratch("difference", (c.n, c.xs[0].size // max(c.n, 1)), c.xs[0].dtype)
    for dx, sign in zip(c.dxs[:2], (1.0, -1.0), strict=True):
        if dx is not None:
            flat = dx.reshape(difference.shape)
            c.xp.multiply(difference, sign * 2.0 / difference.shape[1], out=flat)
            _scaled(c, flat)


def _nothing_to_do(c: Call) -> None:
    """The input of mse is the prediction."""


def _first_input(c: Call) -> Array:
    return c.xs[0]


register_kernel(
    "logloss",
    Kernel(
        passes(8),
        logloss_forward,
        logloss_backward,
        predict=logloss_predict,
        prediction=_probabilities,
    ),
)
register_kernel(
    "softmax_cross_entropy",
    Kernel(
        passes(10),
        softmax_cross_entropy_forward,
        softmax_cross_entropy_backward,
        predict=softmax_predict,
        prediction=_class_probabilities,
    ),
)
register_kernel("mse", Kernel(passes(4), mse_forward, mse_backward, predict=_nothing_to_do, prediction=_first_input))
