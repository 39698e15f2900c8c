"""Loads between two cuts of a placement instance, and the dynamic program over pairs of cuts, compiled.

A tensor is the set of pieces that make or read it: an accelerator pays for it if the tensor has pieces on it and
elsewhere. Say that a tensor is open at a cut if it has pieces on both sides. What an accelerator between cuts i and j
pays for is, then, all that is open at j, and of what is open at i: what ends before j once more, and not what merely
passes by, which is open at j too. Few tensors are open at a cut, so a pair of cuts takes a handful of steps.

Cuts are in order of the time that all before them takes on an accelerator; the sums are made piece by piece, so that
rounding never puts a cut before one that it contains (:func:`sums_of`).
"""

from __future__ import annotations

import numpy as np

from heterps.compiled import njit

__all__ = ["open_costs", "spread", "sums_of", "transfers"]


@njit(nogil=True, cache=True)
def sums_of(member, figures):  # type: ignore[no-untyped-def]
    """float[N, F]: the figures of all pieces of each cut, added in one order: a cut's are never less than a part's."""
    found = np.zeros((len(member), len(figures)))
    for i in range(len(member)):
        for v in range(member.shape[1]):
            if member[i, v]:
                for f in range(len(figures)):
                    found[i, f] += figures[f, v]
    return found


@njit(nogil=True, cache=True)
def _inside(row, first, last, pieces):  # type: ignore[no-untyped-def]
    """How many of a tensor's pieces lie before a cut."""
    count = 0
    for p in range(first, last):
        count += row[pieces[p]]
    return count


@njit(nogil=True, cache=True)
def open_costs(member, first, pieces, cost):  # type: ignore[no-untyped-def]
    """float[N]: the time of all tensors that are open at each cut."""
    found = np.zeros(len(member))
    for i in range(len(member)):
        for t in range(len(cost)):
            inside = _inside(member[i], first[t], first[t + 1], pieces)
            if 0 < inside < first[t + 1] - first[t]:
                found[i] += cost[t]
    return found


@njit(nogil=True, cache=True)
def _open_at(row, first, pieces, cost, begin, rest, price):  # type: ignore[no-untyped-def]
    """Write the tensors that are open at a cut, each with its pieces behind it and its cost; return how many."""
    count = filled = 0
    for t in range(len(cost)):
        inside = _inside(row, first[t], first[t + 1], pieces)
        if 0 < inside < first[t + 1] - first[t]:
            begin[count], price[count] = filled, cost[t]
            for p in range(first[t], first[t + 1]):
                if not row[pieces[p]]:
                    rest[filled] = pieces[p]
                    filled += 1
            count += 1
    begin[count] = filled
    return count


@njit(nogil=True, cache=True)
def _paid(row, opened, count, begin, rest, price):  # type: ignore[no-untyped-def]
    """Time of the tensors between the pieces from a cut, where ``count`` are open, to another and all others."""
    total = opened
    for t in range(count):
        inside = _inside(row, begin[t], begin[t + 1], rest)
        if inside == 0:
            total -= price[t]
        elif inside == begin[t + 1] - begin[t]:
            total += price[t]
    return total


@njit(nogil=True, cache=True)
def transfers(i, j, member, opened, tensors):  # type: ignore[no-untyped-def]
    """Time of the tensors between the pieces from cut i to cut j and all others."""
    first, pieces, cost = tensors
    begin, rest, price = np.empty(len(first), np.int64), np.empty(len(pieces), np.int64), np.empty(len(cost))
    count = _open_at(member[i], first, pieces, cost, begin, rest, price)
    return _paid(member[j], opened[j], count, begin, rest, price)


@njit(nogil=True, cache=True)
def _contains(words, i, j):  # type: ignore[no-untyped-def]
    """Whether all that lies before cut i lies before cut j."""
    w = 0
    while w < words.shape[1] and not words[i, w] & ~words[j, w]:
        w += 1
    return w == words.shape[1]


@njit(nogil=True, cache=True)
def _first_after(reached, start, most, none):  # type: ignore[no-untyped-def]
    """The first cut that can come after one that is reached with these loads; ``none`` if it is not reached."""
    for a in range(reached.shape[0]):
        for c in range(reached.shape[1]):
            if reached[a, c] < most:
                if a + 1 < reached.shape[0]:
                    none = min(none, start[a + 1, c])
                if c + 1 < reached.shape[1]:
                    none = min(none, start[a, c + 1])
    return none


@njit(nogil=True, cache=True)
def _reach(i, j, on_accelerator, on_cpu, start, most, best, came):  # type: ignore[no-untyped-def]
    """Write what it takes to reach cut j from cut i with one accelerator more, and with one CPU more."""
    for a in range(best.shape[1]):
        for c in range(best.shape[2]):
            if best[i, a, c] >= most:
                continue
            for kind in range(2):
                p, q = a + kind, c + 1 - kind
                if p == best.shape[1] or q == best.shape[2] or j < start[p, q]:
                    continue
                load = max(best[i, a, c], on_accelerator if kind else on_cpu)
                if load < min(best[j, p, q], most):
                    best[j, p, q] = load
                    came[j, p, q, 0], came[j, p, q, 1] = i, kind


@njit(nogil=True, cache=True)
def spread(rows, member, words, sums, later, opened, tensors, room, start, most, best, came):  # type: ignore[no-untyped-def]
    """Go on from the cuts ``rows``: write the least load with which later ones are reached, below ``most``.

    ``sums`` are time on an accelerator, on a CPU, bytes and pieces that no accelerator takes. ``best`` is by cut,
    accelerators and CPUs in use, ``came`` from where: (cut, kind). ``later`` is the least time on a CPU before this cut
    or any after it, ``start`` the first cut that is far enough for what devices are left.
    """
    first, pieces, cost = tensors
    begin, rest, price = np.empty(len(first), np.int64), np.empty(len(pieces), np.int64), np.empty(len(cost))
    for i in range(rows[0], rows[1]):
        count = -1
        for j in range(max(i + 1, _first_after(best[i], start, most, len(member))), len(member)):
            on_accelerator, on_cpu = sums[j, 0] - sums[i, 0], sums[j, 1] - sums[i, 1]
            if on_accelerator >= most and later[j] - sums[i, 1] >= most:
                break
            fits = sums[j, 3] == sums[i, 3] and sums[j, 2] - sums[i, 2] <= room
            if not fits:
                on_accelerator = most
            if min(on_accelerator, on_cpu) >= most or not _contains(words, i, j):
                continue
            if on_accelerator < most:
                if count < 0:
                    count = _open_at(member[i], first, pieces, cost, begin, rest, price)
                on_accelerator += _paid(member[j], opened[j], count, begin, rest, price)
            _reach(i, j, on_accelerator, on_cpu, start, most, best, came)
