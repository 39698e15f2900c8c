"""Drawn negatives, and the losses over them: nce, sampled_softmax.

Ids are drawn before a batch's rows are pulled, so drawing runs where data is read, on the host, and the ids are fed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace
from heterps.kernels.cost import passes, read_only
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.pointwise import stable_sigmoid
from heterps.kernels.random import uniform_bits

__all__ = ["draw_ids"]

HIDDEN = -1e30  # the score of what must not count in a softmax


def draw_ids(attrs: Mapping[str, Any], n: int, seed: int) -> npt.NDArray[np.uint64]:
    """Draw ``[n, count]`` ids from the distribution of a ``negative_sampling`` op; a function of the seed alone."""
    size, count = attrs["vocabulary"], attrs["count"]
    uniform = (uniform_bits(np, seed, n * count) >> np.uint64(11)) * 2.0**-53
    if attrs["distribution"] == "uniform":
        drawn = uniform * size
    elif attrs["distribution"] == "log_uniform":
        drawn = np.exp(uniform * math.log(size + 1)) - 1
    else:
        sums = _cumulative(attrs["weights"])
        drawn = np.searchsorted(sums, uniform * sums[-1], side="right")
    ids: npt.NDArray[np.uint64] = np.minimum(drawn.astype(np.uint64), np.uint64(size - 1))
    return ids.reshape(n, count)


@lru_cache(maxsize=8)
def _cumulative(weights: tuple[float, ...]) -> npt.NDArray[np.float64]:
    return np.cumsum(np.asarray(weights, np.float64))


@lru_cache(maxsize=8)
def _log_odds(xp: Namespace, dtype: str, size: int, distribution: str, weights: tuple[float, ...] | None) -> Array:
    """Log of each id's probability to be drawn."""
    if weights is not None:
        share = np.asarray(weights, np.float64) / np.sum(weights)
    elif distribution == "uniform":
        share = np.full(size, 1 / size)
    else:
        share = np.diff(np.log(np.arange(1, size + 2))) / math.log(size + 1)
    return xp.asarray(np.log(np.maximum(share, 1e-30)).astype(dtype))


@loop
def corrected(score, scores, true, sampled, table, shift, correct, own, others):  # type: ignore[no-untyped-def]
    """Scores less ``log q + shift`` (or as they are); a sampled id that is the true one is hidden."""
    for i in range(true.size):
        own[i] = score[i] - (table[true[i]] + shift) if correct else score[i]
        for j in range(sampled.shape[1]):
            s = scores[i, j] - (table[sampled[i, j]] + shift) if correct else scores[i, j]
            others[i, j] = HIDDEN if sampled[i, j] == true[i] else s


@loop
def nce_rows(own, others):  # type: ignore[no-untyped-def]
    """Mean loss; scores become probabilities in place."""
    total = 0.0
    for i in range(own.size):
        e = math.exp(-abs(own[i]))
        total += max(-own[i], 0.0) + math.log1p(e)
        own[i] = 1 / (1 + e) if own[i] >= 0 else e / (1 + e)
        for j in range(others.shape[1]):
            e = math.exp(-abs(others[i, j]))
            total += max(others[i, j], 0.0) + math.log1p(e)
            others[i, j] = 1 / (1 + e) if others[i, j] >= 0 else e / (1 + e)
    return total / max(own.size, 1)


@loop
def softmax_rows(own, others):  # type: ignore[no-untyped-def]
    """Mean loss; scores become probabilities in place."""
    mean = 0.0
    for i in range(own.size):
        top = own[i]
        for j in range(others.shape[1]):
            top = max(top, others[i, j])
        mine = math.exp(own[i] - top)
        total = mine
        for j in range(others.shape[1]):
            others[i, j] = math.exp(others[i, j] - top)
            total += others[i, j]
        mean += math.log(total) + top - own[i]
        own[i] = mine / total
        for j in range(others.shape[1]):
            others[i, j] /= total
    return mean / max(own.size, 1)


def _log_probabilities(c: Call) -> Array:
    return _log_odds(c.xp, str(c.xs[0].dtype), *(c.attrs[k] for k in ("vocabulary", "distribution", "weights")))


def _log_probability(c: Call, ids: Array) -> Array:
    return c.xp.take(_log_probabilities(c), ids.astype(c.xp.int64))


def _scores(c: Call, *, shift: float, correct: bool) -> tuple[Array, Array]:
    """Scores of true and sampled ids, corrected; sampled ids that must not count are hidden."""
    true, sampled = c.xs[2].reshape(-1), c.xs[3]
    score = c.scratch("score", (c.n,), c.xs[0].dtype)
    scores = c.scratch("scores", c.xs[1].shape, c.xs[1].dtype)
    if c.loops:
        given, table = c.xs[0].reshape(-1), _log_probabilities(c)
        corrected(given, c.xs[1], true, sampled, table, shift, correct, score, scores)
        return score, scores
    score[...], scores[...] = c.xs[0].reshape(-1), c.xs[1]
    if correct:
        score -= _log_probability(c, true) + shift
        scores -= _log_probability(c, sampled) + shift
    scores[...] = c.xp.where(sampled == true[:, None], HIDDEN, scores)
    return score, scores


def nce_forward(c: Call) -> None:
    """Mean of ``softplus(-s)`` of the true id plus ``softplus(s)`` of each sampled one."""
    xp = c.xp
    score, scores = _scores(c, shift=math.log(c.xs[1].shape[1]), correct=c.attrs["correction"])
    nce_predict(c)
    if c.loops:
        c.y[...] = nce_rows(score, scores)
        return
    losses = xp.logaddexp(0, -score) + xp.logaddexp(0, scores).sum(axis=1)
    c.y[...] = losses.sum() / max(c.n, 1)
    stable_sigmoid(c, score, score)
    stable_sigmoid(c, scores, scores)


def nce_predict(c: Call) -> None:
    """How likely the true id is no noise, by its score alone."""
    stable_sigmoid(c, c.xs[0].reshape(-1), _prediction(c))


def nce_backward(c: Call) -> None:
    """``(p - 1) / n`` for the true id, ``p / n`` for sampled ones."""
    score = c.scratch("score", (c.n,), c.xs[0].dtype)
    scores = c.scratch("scores", c.xs[1].shape, c.xs[1].dtype)
    if c.dxs[0] is not None:
        slope = c.dxs[0].reshape(-1)
        c.xp.subtract(score, 1, out=slope)
        c.xp.multiply(slope, 1 / max(c.n, 1), out=slope)
    if c.dxs[1] is not None:
        c.xp.multiply(scores, 1 / max(c.n, 1), out=c.dxs[1])


def sampled_softmax_forward(c: Call) -> None:
    """Mean of ``log sum exp`` over true and sampled ids minus the true one's score."""
    xp = c.xp
    score, scores = _scores(c, shift=0.0, correct=True)
    sampled_softmax_predict(c)
    if c.loops:
        c.y[...] = softmax_rows(score, scores)
        return
    top = xp.maximum(score, scores.max(axis=1))
    own, others = xp.exp(score - top), xp.exp(scores - top[:, None])
    total = own + others.sum(axis=1)
    c.y[...] = (xp.log(total) + top - score).sum() / max(c.n, 1)
    xp.divide(own, total, out=score)
    xp.divide(others, total[:, None], out=scores)


def sampled_softmax_predict(c: Call) -> None:
    """The score of the true id."""
    _prediction(c)[...] = c.xs[0].reshape(-1)


def _prediction(c: Call) -> Array:
    return c.scratch("prediction", (c.n,), c.xs[0].dtype)


register_kernel("negative_sampling", Kernel(read_only, draw=draw_ids))
register_kernel("nce", Kernel(passes(12), nce_forward, nce_backward, predict=nce_predict, prediction=_prediction))
register_kernel(
    "sampled_softmax",
    Kernel(
        passes(12),
        sampled_softmax_forward,
        nce_backward,  # both leave probabilities in scratch, whose slopes are the same
        predict=sampled_softmax_predict,
        prediction=_prediction,
    ),
)
