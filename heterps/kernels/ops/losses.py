"""Losses from logits or predictions: the mean over the batch, the gradient, and the prediction itself.

With sample weights the loss is ``sum(w l) / n``: linear in the weights, so a sample's gradient does not depend on its
neighbours in the batch.
"""

from __future__ import annotations

import math

from heterps.device.arrays import Array
from heterps.device.raw import RawModule
from heterps.kernels.cost import passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.fused_cuda import cuda_passes, logloss_cuda, logloss_slope_cuda
from heterps.kernels.ops.pointwise import stable_sigmoid

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


@loop
def class_losses(z, label, top, total, weight, weighted):  # type: ignore[no-untyped-def]
    """Mean of ``log(total) + top - z[label]``."""
    mean = 0.0
    for i in range(z.shape[0]):
        loss = math.log(total[i, 0]) + top[i, 0] - z[i, label[i]]
        mean += loss * weight[i] if weighted else loss
    return mean / max(z.shape[0], 1)


@loop
def class_slopes(p, label, weight, weighted, dz):  # type: ignore[no-untyped-def]
    """``(p - onehot) w / n``."""
    for i in range(p.shape[0]):
        scale = p.dtype.type(1.0 / p.shape[0])
        if weighted:
            scale *= weight[i]
        for j in range(p.shape[1]):
            dz[i, j] = p[i, j] * scale
        dz[i, label[i]] -= scale


@loop
def squares(a, b, weight, weighted):  # type: ignore[no-untyped-def]
    """Mean over samples of the mean squared difference."""
    mean = 0.0
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += (a[i, j] - b[i, j]) ** 2
        mean += total * weight[i] if weighted else total
    return mean / max(a.size, 1)


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


def _logloss_module(c: Call, *arrays: Array) -> RawModule | None:
    weight = _weights(c)
    return cuda_passes(c.xp, *arrays, *(() if weight is None else (weight,)))


def logloss_forward(c: Call) -> None:
    """Mean binary cross entropy from logits, stable for any logit."""
    z, label, p, xp = _flat(c.xs[0]), _flat(c.xs[1]), _probabilities(c), c.xp
    if c.loops:
        weight = _weights(c)
        c.y[...] = logloss_rows(z, label, z if weight is None else weight, weight is not None, p)
        return
    if (module := _logloss_module(c, z, label)) is not None:
        logloss_cuda(c, module, z, label, _weights(c), p)
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
    if (module := _logloss_module(c, p, label, dz)) is not None:
        logloss_slope_cuda(module, p, label, _weights(c), dz)
        return
    c.xp.subtract(p, label, out=dz)
    _scaled(c, dz)


def _class_probabilities(c: Call) -> Array:
    return c.scratch("p", c.xs[0].shape, c.xs[0].dtype)


def _class_numbers(c: Call) -> Array:
    label = c.scratch("label", (c.n,), c.xp.int64)
    label[...] = _flat(c.xs[1])
    return label


def softmax_predict(c: Call) -> None:
    """Class probabilities; leaves the largest logit and the sum of the exponentials per sample in scratch."""
    z, p, xp = c.xs[0], _class_probabilities(c), c.xp
    top, total = (c.scratch(name, (c.n, 1), z.dtype) for name in ("top", "total"))
    xp.max(z, axis=1, keepdims=True, out=top)
    xp.subtract(z, top, out=p)
    xp.exp(p, out=p)
    xp.sum(p, axis=1, keepdims=True, out=total)
    xp.divide(p, total, out=p)


def softmax_cross_entropy_forward(c: Call) -> None:
    """Mean of ``log sum exp(z) - z[label]``."""
    z, label, xp, weight = c.xs[0], _class_numbers(c), c.xp, _weights(c)
    softmax_predict(c)
    top, total = (c.scratch(name, (c.n, 1), z.dtype) for name in ("top", "total"))
    if c.loops:
        c.y[...] = class_losses(z, label, top, total, _flat(top) if weight is None else weight, weight is not None)
        return
    chosen = xp.take_along_axis(z, label[:, None], axis=1)
    _mean(c, (xp.log(total) + top - chosen)[:, 0])


def softmax_cross_entropy_backward(c: Call) -> None:
    """``(p - onehot) w / n``."""
    dz, xp, weight = c.dxs[0], c.xp, _weights(c)
    if dz is None:
        return
    label, p = c.scratch("label", (c.n,), xp.int64), _class_probabilities(c)
    if c.loops:
        class_slopes(p, label, _flat(p) if weight is None else weight, weight is not None, dz)
        return
    hot = xp.arange(dz.shape[1])[None, :] == label[:, None]
    xp.subtract(p, hot, out=dz)
    _scaled(c, dz)


def _samples(c: Call, x: Array) -> Array:
    return x.reshape(c.n, x.size // max(c.n, 1))


def mse_forward(c: Call) -> None:
    """Mean over samples of the mean squared difference."""
    a, b, weight = _samples(c, c.xs[0]), _samples(c, c.xs[1]), _weights(c)
    if c.loops:
        c.y[...] = squares(a, b, _flat(a) if weight is None else weight, weight is not None)
        return
    difference = a - b
    _mean(c, (difference * difference).mean(axis=1))


def mse_backward(c: Call) -> None:
    """``2 (a - b) w / (n size)``, and its negative for the target."""
    a, b = _samples(c, c.xs[0]), _samples(c, c.xs[1])
    for dx, (p, q) in zip(c.dxs[:2], ((a, b), (b, a)), strict=True):
        if dx is not None:
            flat = _samples(c, dx)
            c.xp.subtract(p, q, out=flat)
            c.xp.multiply(flat, 2.0 / flat.shape[1], out=flat)
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
