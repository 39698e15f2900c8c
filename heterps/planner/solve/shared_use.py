"""How many rows per second shared capacities let through, and who carries them where two types run one stage.

There the first type is used up and the other carries the rest. Of x rows a second the first carries the least, over
resources, of ``k * (1 - s*x) / q``, and no more than all of them. So what a stage takes of a capacity is, piece by
piece, a line in x: its corners are listed, and the last x at which no more is taken than there is lies on one piece.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from heterps.planner.solve.placement import TOLERANCE, Floats, Segment

if TYPE_CHECKING:
    from heterps.planner.solve.problem import Problem

__all__ = ["carried_by_first", "shared_limits"]

_Line = tuple[float, float]  # its value at 0, and by how much it rises


def carried_by_first(problem: Problem, segment: Segment, x: float) -> float:
    """Of x rows a second, those that the first type of a stage carries."""
    if segment.other < 0:
        return x
    return max(0.0, min(at + slope * x for at, slope in _lines(problem, segment)))


def shared_limits(problem: Problem, segments: tuple[Segment, ...], top: float) -> Floats:
    """float[H]: rows per second that each shared capacity lets through; infinite if that is more than ``top``.

    ``top`` is what all stages carry at most.
    """
    alone = problem.fixed_usage + problem.passed(segments)
    mixed: list[tuple[Segment, Floats]] = []
    for s in segments:
        alone = alone + _use(problem, s, s.type if s.other < 0 else s.other)
        if s.other >= 0:
            mixed.append((s, _use(problem, s, s.type) - _use(problem, s, s.other)))
    if not mixed:
        return np.asarray(np.divide(problem.capacity, alone, out=np.full(len(alone), np.inf), where=alone > 0))
    xs = sorted({0.0, top, *(x for s, _ in mixed for x in _corners(_lines(problem, s)) if 0 < x < top)})
    taken = [alone * x + sum(carried_by_first(problem, s, x) * more for s, more in mixed) for x in xs]
    return np.array([_last(xs, [float(use[h]) for use in taken], have) for h, have in enumerate(problem.capacity)])


def _use(problem: Problem, segment: Segment, t: int) -> Floats:
    """float[H]: what a row takes of each capacity where a stage runs on a type."""
    i, j = segment.start, segment.stop
    cuts = problem.cut_usage[0, :, i, t] + problem.cut_usage[1, :, j, t]
    return np.asarray(problem.usage[:, j, t] - problem.usage[:, i, t] + cuts)


def _lines(problem: Problem, segment: Segment) -> list[_Line]:
    """What the first type can carry by each resource; and all there is."""
    serial, parallel = problem.times(segment.start, segment.stop, segment.type)
    k = segment.units
    return [(0.0, 1.0), *((k / q, -k * s / q) for s, q in zip(serial, parallel, strict=True) if q > 0)]


def _corners(lines: list[_Line]) -> list[float]:
    return [(b[0] - a[0]) / (a[1] - b[1]) for a, b in itertools.combinations(lines, 2) if a[1] != b[1]]


def _last(xs: list[float], taken: list[float], have: float) -> float:
    """The last x at which no more is taken than there is, between points that lines join; infinite if it is the end."""
    enough = [i for i, use in enumerate(taken) if use <= have * (1 + TOLERANCE)]
    if not enough or enough[-1] == len(xs) - 1:
        return math.inf if enough else 0.0
    i = enough[-1]
    part = (have - taken[i]) / (taken[i + 1] - taken[i])
    return xs[i] + max(0.0, part) * (xs[i + 1] - xs[i])
