"""Lanes of unequal speed: all have the depth that the fastest needs, so more batches are in flight than on average.

Where two types read, with k and m workers, a plan has k + m lanes and one depth, that of the lanes which need most
(:func:`heterps.planner.costs.playing.depth_for`). At X rows a second a lane that carries y of them needs ``y * W``
batches, W being those that are in flight for each row a second on the ways that begin on its type. So N, the batches in
flight for each row a second, is at least ``(k + m) * y/X * W`` for the lanes of either type. The first type is used up:
with a and b rows a second for a worker of the first and of the other, its lanes carry a, those of the other the rest.

**Theorem.** A plan that reads on k of one type and m of another, at any rate X that is x or more, where nothing is
serial, has N at least

- if a >= b: ``f * W`` with ``f = (k + m) * a / (k*a + m*b)``, W on the first type, for every m that is not more;
- if a < b: ``f * W`` with ``f = (1 + k/m) * (1 - k*a/x)``, W on the other type, for every m that is not less.

**Proof.** Let m' be the plan's own number. If a >= b, its lanes of the first type carry a each, or X/k where they carry
all: then N is at least ``(k + m')/k * W``, and f is at most ``(k + m)/k``. Else N is at least ``(k + m') * a/X * W``,
with m' >= m, and ``m' >= (X - k*a)/b`` as the stage carries X. Up to ``Y = k*a + m*b`` that is at least
``(k + m) * a/X >= (k + m) * a/Y = f`` times W; above Y at least ``(k + (X - k*a)/b) * a/X = a/b - (a/b - 1) * k*a/X``
times W, which rises with X, and at Y is f. If a < b, the lanes of the other type carry ``(X - k*a)/m'`` each: N is at
least ``(k + m')/m' * (1 - k*a/X) * W``, which rises with X and falls with m'.

So a search at x that lists workers of the other type, the fewest that carry x if a >= b, and all numbers of them if
a < b, leaves out no plan of x rows a second or more by what it counts. Many numbers are taken together: the fewest of
them are paid, the most are counted with.
"""

from __future__ import annotations

from heterps.compiled import njit

__all__ = ["lane_factor"]


@njit(nogil=True, cache=True, error_model="numpy")
def lane_factor(k: int, m: float, whole: float, whole_other: float) -> float:
    """Times as many batches in flight as those of the faster lanes would be, at the least.

    ``whole`` and ``whole_other`` are the workers of each type that would carry the stage alone, in fractions. Where the
    first type is the slower one, the factor is that of the other's lanes.
    """
    if whole <= whole_other:
        return (k + m) / whole / (k / whole + m / whole_other)
    return (1 + k / m) * (1 - min(1.0, k / whole))
