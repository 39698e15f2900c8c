"""Compiled loops over lists: each is one pass, list by list, elements in order."""

from __future__ import annotations

import math

import numpy as np

from heterps.kernels.jit import loop

__all__: list[str] = []

MEAN, SUM, LAST = 0, 1, 2


@loop
def weighted_sums(values, weight, offsets, y):  # type: ignore[no-untyped-def]
    """``y[i]`` = sum of ``weight[p] values[p]`` over list i."""
    for i in range(offsets.size - 1):
        for d in range(y.shape[1]):
            y[i, d] = 0
        for p in range(offsets[i], offsets[i + 1]):
            w = weight[p]
            for d in range(y.shape[1]):
                y[i, d] += w * values[p, d]


@loop
def pool_weights(offsets, pooling, weight):  # type: ignore[no-untyped-def]
    """Weight of each element: one over the length, 1, or 1 for the last only."""
    for i in range(offsets.size - 1):
        length = offsets[i + 1] - offsets[i]
        for p in range(offsets[i], offsets[i + 1]):
            if pooling == MEAN:
                weight[p] = 1.0 / length
            else:
                weight[p] = 1.0 if pooling == SUM or p == offsets[i + 1] - 1 else 0.0


@loop
def add_spread(dy, weight, offsets, gradient):  # type: ignore[no-untyped-def]
    """``gradient[p] += weight[p] dy[i]``."""
    for i in range(offsets.size - 1):
        for p in range(offsets[i], offsets[i + 1]):
            for d in range(dy.shape[1]):
                gradient[p, d] += weight[p] * dy[i, d]


@loop
def repeat_rows(rows, offsets, out):  # type: ignore[no-untyped-def]
    """The sample's row for each element of its list."""
    for i in range(offsets.size - 1):
        for p in range(offsets[i], offsets[i + 1]):
            for d in range(rows.shape[1]):
                out[p, d] = rows[i, d]


@loop
def softmax_lists(weight, offsets):  # type: ignore[no-untyped-def]
    """Exponentials normalised within each list, in place."""
    for i in range(offsets.size - 1):
        top, total = -np.inf, 0.0
        for p in range(offsets[i], offsets[i + 1]):
            top = max(top, weight[p])
        for p in range(offsets[i], offsets[i + 1]):
            weight[p] = math.exp(weight[p] - top)
            total += weight[p]
        for p in range(offsets[i], offsets[i + 1]):
            weight[p] /= total


@loop
def through_sums(dy, k, weight, offsets, normalised, dscore, dk):  # type: ignore[no-untyped-def]
    """Backward of the weighted sums, and of the softmax that may have made the weights."""
    for i in range(offsets.size - 1):
        shared = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            total = 0.0
            for d in range(k.shape[1]):
                total += dy[i, d] * k[p, d]
                dk[p, d] = weight[p] * dy[i, d]
            dscore[p] = total
            shared += weight[p] * total
        if normalised:
            for p in range(offsets[i], offsets[i + 1]):
                dscore[p] = weight[p] * (dscore[p] - shared)


@loop
def through_features(df, q, k, dq, dk):  # type: ignore[no-untyped-def]
    """Backward of ``[q, k, q - k, q * k]``; adds to dk."""
    dim = q.shape[1]
    for p in range(q.shape[0]):
        for d in range(dim):
            less, product = df[p, 2 * dim + d], df[p, 3 * dim + d]
            dq[p, d] = df[p, d] + less + product * k[p, d]
            dk[p, d] += df[p, dim + d] - less + product * q[p, d]


@loop
def through_dots(dscore, scale, q, k, dq, dk):  # type: ignore[no-untyped-def]
    """Backward of ``q k scale``; adds to dk."""
    for p in range(q.shape[0]):
        for d in range(q.shape[1]):
            dq[p, d] = k[p, d] * dscore[p] * scale
            dk[p, d] += q[p, d] * dscore[p] * scale
