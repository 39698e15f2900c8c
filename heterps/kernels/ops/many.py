"""Losses over many scores a sample: in_batch_softmax over the items of a batch, multi_logloss over tasks."""

from __future__ import annotations

from heterps.device.arrays import Array
from heterps.kernels.cost import OpCost, OpWork, passes
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.losses import logloss_rows
from heterps.kernels.ops.pointwise import stable_sigmoid
from heterps.kernels.ops.sampling import HIDDEN

__all__: list[str] = []


def in_batch_softmax_forward(c: Call) -> None:
    """Mean of ``log sum_j exp(u_i v_j / t) - u_i v_i / t``; leaves the probabilities in scratch."""
    (user, item), xp = c.xs[:2], c.xp
    p, prediction = c.scratch("p", (c.n, c.n), user.dtype), _scores(c)
    xp.matmul(user, item.T, out=p)
    xp.multiply(p, 1 / c.attrs["temperature"], out=p)
    prediction[...] = xp.diagonal(p)
    if len(c.xs) > 3:
        xp.subtract(p, c.xs[3].reshape(1, -1), out=p)
    own_score = c.scratch("own score", (c.n,), user.dtype)
    own_score[...] = xp.diagonal(p)
    if len(c.xs) > 2:
        _hide_same(c, p)
    top, total = (c.scratch(name, (c.n, 1), user.dtype) for name in ("top", "total"))
    xp.max(p, axis=1, keepdims=True, out=top)
    xp.subtract(p, top, out=p)
    xp.exp(p, out=p)
    xp.sum(p, axis=1, keepdims=True, out=total)
    xp.divide(p, total, out=p)
    xp.log(total, out=total)
    xp.add(total, top, out=total)
    xp.subtract(total[:, 0], own_score, out=own_score)
    c.y[...] = own_score.sum() / max(c.n, 1)


@loop
def hide_same(ids, p):  # type: ignore[no-untyped-def]
    """Scores of the same item in other samples must not count."""
    for i in range(ids.size):
        for j in range(ids.size):
            if i != j and ids[i] == ids[j]:
                p[i, j] = HIDDEN


def _hide_same(c: Call, p: Array) -> None:
    ids, xp = c.xs[2].reshape(-1), c.xp
    if c.loops:
        hide_same(ids, p)
    else:
        p[...] = xp.where((ids[:, None] == ids[None, :]) & ~xp.eye(c.n, dtype=bool), HIDDEN, p)


def in_batch_softmax_backward(c: Call) -> None:
    """``(p - identity) / (n t)`` times the other side's vectors."""
    (user, item), xp = c.xs[:2], c.xp
    p = c.scratch("p", (c.n, c.n), user.dtype)
    slope = c.scratch("slope", (c.n, c.n), user.dtype)
    share = 1 / (max(c.n, 1) * c.attrs["temperature"])
    xp.multiply(p, share, out=slope)
    own = slope.reshape(-1)[:: c.n + 1]
    own -= share
    if c.dxs[0] is not None:
        xp.matmul(slope, item, out=c.dxs[0])
    if c.dxs[1] is not None:
        xp.matmul(slope.T, user, out=c.dxs[1])


def in_batch_softmax_predict(c: Call) -> None:
    """Each sample's own score."""
    _scores(c)[...] = (c.xs[0] * c.xs[1]).sum(axis=1) * (1 / c.attrs["temperature"])


def _scores(c: Call) -> Array:
    return c.scratch("prediction", (c.n,), c.xs[0].dtype)


def in_batch_softmax_cost(work: OpWork) -> OpCost:
    """Three products of batch by batch by dim, and passes over batch by batch."""
    x, pairs = work.bytes(*work.inputs), float(work.batch) ** 2
    return OpCost((6.0 * work.inputs[0].shape[0] + 8) * pairs, 2 * x + 5 * 4 * pairs, x + 5 * 4 * pairs)


def _tasks(c: Call) -> Array:
    return c.scratch("p", c.xs[0].shape, c.xs[0].dtype)


def multi_logloss_forward(c: Call) -> None:
    """Sum over tasks of the mean of ``max(z, 0) - z y + log(1 + exp(-|z|))``."""
    (z, label), xp = c.xs, c.xp
    if c.loops:
        flat, p = z.reshape(-1), _tasks(c).reshape(-1)
        c.y[...] = logloss_rows(flat, label.reshape(-1), flat, False, p) * z.shape[1]
        return
    multi_logloss_predict(c)
    c.y[...] = (xp.maximum(z, 0) - z * label + xp.log1p(xp.exp(-abs(z)))).sum() / max(c.n, 1)


def multi_logloss_predict(c: Call) -> None:
    """A probability per task."""
    stable_sigmoid(c, c.xs[0], _tasks(c))


def multi_logloss_backward(c: Call) -> None:
    """``(p - y) / n``."""
    if c.dxs[0] is not None:
        c.xp.subtract(_tasks(c), c.xs[1], out=c.dxs[0])
        c.xp.multiply(c.dxs[0], 1 / max(c.n, 1), out=c.dxs[0])


register_kernel(
    "in_batch_softmax",
    Kernel(
        in_batch_softmax_cost,
        in_batch_softmax_forward,
        in_batch_softmax_backward,
        predict=in_batch_softmax_predict,
        prediction=_scores,
    ),
)
register_kernel(
    "multi_logloss",
    Kernel(passes(8), multi_logloss_forward, multi_logloss_backward, predict=multi_logloss_predict, prediction=_tasks),
)
