"""Give stages that are already decided the units they need."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from heterps.planner.solve.chain import units_needed
from heterps.planner.solve.placement import TOLERANCE, Placement, Segment
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.small import suited

__all__ = ["MOST_WORKERS", "fits", "runs", "sized", "whole"]

MOST_WORKERS = 2**31  # of a stage: where things are scarce, so many are no longer looked at


def fits(problem: Problem, placement: Placement, x: float) -> bool:
    """Whether a placement keeps within everything scarce at x rows a second."""
    bought = problem.bought(placement.segments, placement.hosts)
    most_way = problem.most_way(x)
    if np.isfinite(most_way) and problem.way_of(placement.segments) > most_way * (1 + TOLERANCE):
        return False
    return bool((bought <= problem.cap).all()) and problem.sustained(placement) >= x * (1 - 1e-9)


def runs(order: Sequence[int], types: Sequence[int]) -> list[tuple[int, int, int]]:
    """Stages (start, stop, type): neighbours of one type are joined. ``types`` has an entry per step of ``order``."""
    stages: list[tuple[int, int, int]] = []
    for (i, j), t in zip(itertools.pairwise(order), types, strict=True):
        if stages and stages[-1][2] == t:
            stages[-1] = (stages[-1][0], j, t)
        else:
            stages.append((i, j, t))
    return stages


def sized(problem: Problem, stages: Sequence[tuple[int, int, int]], x: float) -> Placement | None:
    """Give each stage the units it needs; None where no number is enough or something scarce runs out."""
    needed = suited(units_needed, problem)
    units = [needed(x, i, j, t, problem.stage_figures, True) for i, j, t in stages]
    if max(units) >= MOST_WORKERS:
        return None
    placement = whole(problem, tuple(Segment(*s, int(k)) for s, k in zip(stages, units, strict=True)), x)
    return placement if fits(problem, placement, x) else None


def whole(problem: Problem, segments: tuple[Segment, ...], x: float) -> Placement:
    """Return stages with their shard hosts and price."""
    hosts = problem.shards.hosts(x)
    return Placement(segments, hosts, price := problem.price_of(segments, hosts), price)
