"""The loops that take pulled rows to positions and back, for several lookups of one pull at a time.

Lookups are short: each alone would leave and take the interpreter lock for some fifty microseconds of work, and lanes
that share it would wait for each other. What differs between lookups is a row of numbers; places in arrays count from
the arrays of the first of them, wherever the others are in memory.

Positions are unsigned: numba guards a signed index against being negative, which costs two thirds of these loops.
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import inline
from heterps.kernels.jit import loop
from heterps.kernels.ops.list_lanes import give_rows, sum_rows
from heterps.lanes import add_row, copy_row, prefetch

__all__ = ["NONE", "gather", "pool_max", "scatter", "unpool_max"]

#: Numbers of a lookup: columns of the row from LOW on, DIM of them; the row that is padding, or -1; what is done with
#: lists; samples; places in the inverse and in the offsets; place of the first vector, and from one sample to the next.
LOW, DIM, PAD, POOLING, N, FIRST, OFFSETS, AT, STRIDE, SLOTS = range(10)
#: What is done with lists.
NONE, SUM, MEAN = range(3)
# Pooled vectors of one slot lie a sample apart, further than the processor foresees: they are asked for some lists
# ahead. Rows are not: they are numbered as ids first appear, so that new ones come in order and others came lately.
LISTS_AHEAD, LINE = 12, 16


@inline
def ask_ahead(y, at, stride, dim):  # type: ignore[no-untyped-def]
    """Ask for the vector of a list that comes later."""
    for d in range(0, dim + LINE - 1, LINE):
        prefetch(y, np.int64(at) + LISTS_AHEAD * stride + d)


@inline
def gather_slots(flat, width, inverse, y, t):  # type: ignore[no-untyped-def]
    """Copy each position's row."""
    low, dim, pad, stride, slots = t[LOW], t[DIM], t[PAD], t[STRIDE], t[SLOTS]
    p, start = np.uint64(t[FIRST]), t[AT]
    for i in range(t[N]):
        at = np.uint64(start + i * stride)
        for _ in range(slots):
            row = inverse[p]
            source = np.uint64(row * width + low)
            if row < 0 or row == pad:
                for d in range(dim):
                    y[at + np.uint64(d)] = 0
            else:
                copy_row(flat, source, y, at, np.uint64(dim))
            at += np.uint64(dim)
            p += np.uint64(1)


@inline
def scatter_slots(flat, width, inverse, dy, t):  # type: ignore[no-untyped-def]
    """Add each position's gradient to its row, positions in order."""
    low, dim, pad, stride, slots = t[LOW], t[DIM], t[PAD], t[STRIDE], t[SLOTS]
    p, start = np.uint64(t[FIRST]), t[AT]
    for i in range(t[N]):
        at = np.uint64(start + i * stride)
        for _ in range(slots):
            row = inverse[p]
            if row >= 0 and row != pad:
                add_row(dy, at, flat, np.uint64(row * width + low), np.uint64(dim))
            at += np.uint64(dim)
            p += np.uint64(1)


@inline
def count_rows(inverse, first, last, pad):  # type: ignore[no-untyped-def]
    """Return how many rows of a list are no padding."""
    count = 0
    for p in range(first, last):
        count += inverse[p] >= 0 and inverse[p] != pad
    return count


@inline
def pool(flat, width, inverse, offsets, y, t):  # type: ignore[no-untyped-def]
    """Sum or mean of the rows of each list; padding counts for nothing."""
    low, dim, pad, stride, mean = t[LOW], t[DIM], t[PAD], t[STRIDE], t[POOLING] == MEAN
    begin, list_, start = t[FIRST], t[OFFSETS], t[AT]
    for i in range(t[N]):
        at, where = np.uint64(start + i * stride), np.uint64(list_ + i)
        ask_ahead(y, at, stride, dim)
        first, last = np.uint64(begin + offsets[where]), np.uint64(begin + offsets[where + np.uint64(1)])
        sum_rows(flat, inverse, np.uint64(width), np.uint64(low), first, last, pad, y, at, np.uint64(dim))
        count = count_rows(inverse, first, last, pad) if mean else 1
        if count > 1:
            for d in range(dim):
                y[at + np.uint64(d)] /= count


@inline
def unpool(flat, width, inverse, offsets, dy, t):  # type: ignore[no-untyped-def]
    """Backward of :func:`pool`."""
    low, dim, pad, stride, mean = t[LOW], t[DIM], t[PAD], t[STRIDE], t[POOLING] == MEAN
    begin, list_, start = t[FIRST], t[OFFSETS], t[AT]
    for i in range(t[N]):
        at, where = np.uint64(start + i * stride), np.uint64(list_ + i)
        ask_ahead(dy, at, stride, dim)
        first, last = np.uint64(begin + offsets[where]), np.uint64(begin + offsets[where + np.uint64(1)])
        count = count_rows(inverse, first, last, pad) if mean else 1
        if count > 1:
            divisor = dy.dtype.type(count)
            for p in range(first, last):
                row = inverse[p]
                if row >= 0 and row != pad:
                    target = np.uint64(row * width + low)
                    for d in range(dim):
                        flat[target + np.uint64(d)] += dy[at + np.uint64(d)] / divisor
        else:
            give_rows(flat, inverse, np.uint64(width), np.uint64(low), first, last, pad, dy, at, np.uint64(dim))


@loop
def gather(values, inverse, offsets, y, lookups):  # type: ignore[no-untyped-def]
    """Rows to positions, pooled where lists are: ``lookups[k]`` says what the k-th lookup is."""
    flat, width = values.reshape(-1), values.shape[1]
    for k in range(lookups.shape[0]):
        if lookups[k, POOLING] == NONE:
            gather_slots(flat, width, inverse, y, lookups[k])
        else:
            pool(flat, width, inverse, offsets, y, lookups[k])


@loop
def scatter(gradient, inverse, offsets, dy, lookups):  # type: ignore[no-untyped-def]
    """Backward of :func:`gather`: adds to the gradient of each row."""
    flat, width = gradient.reshape(-1), gradient.shape[1]
    for k in range(lookups.shape[0]):
        if lookups[k, POOLING] == NONE:
            scatter_slots(flat, width, inverse, dy, lookups[k])
        else:
            unpool(flat, width, inverse, offsets, dy, lookups[k])


@loop
def pool_max(values, low, dim, inverse, offsets, pad, winner, y, stride):  # type: ignore[no-untyped-def]
    """Largest number per column of each list, and which row gave it (the first of equals; -1: none)."""
    for i in range(offsets.size - 1):
        at = i * stride
        for d in range(dim):
            y[at + d] = 0
            winner[i, d] = -1
        for p in range(offsets[i], offsets[i + 1]):
            row = inverse[p]
            if row >= 0 and row != pad:
                for d in range(dim):
                    value = values[row, low + d]
                    if winner[i, d] < 0 or value > y[at + d]:
                        y[at + d] = value
                        winner[i, d] = row


@loop
def unpool_max(gradient, low, dim, winner, dy, stride):  # type: ignore[no-untyped-def]
    """Backward of :func:`pool_max`: all of it to the winner."""
    for i in range(winner.shape[0]):
        for d in range(dim):
            row = winner[i, d]
            if row >= 0:
                gradient[row, low + d] += dy[i * stride + d]
