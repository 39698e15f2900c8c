"""Solvers by name: functions ``(problem, rows_per_second) -> Placement | None`` on plain arrays.

``exact`` is the one that plans are made with; the others are there to be compared with. Anyone can register more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError, UnknownKindError
from heterps.planner.chain import chain_placement, figures_of, is_inside, units_needed
from heterps.planner.labels import TooManyLabelsError, label_placement
from heterps.planner.milp import milp_placement
from heterps.planner.problem import Placement, Problem, Segment
from heterps.planner.search import Solve

__all__ = ["Solver", "register_solver", "solver", "solvers"]


@dataclass(frozen=True)
class Solver:
    """A named way of placing. ``applies(problem)`` says why it cannot be used, or nothing."""

    name: str
    solve: Solve
    doc: str
    applies: Callable[[Problem], str] = lambda problem: ""


_SOLVERS: dict[str, Solver] = {}


def register_solver(new: Solver) -> Solver:
    """Make a solver known by its name; a name can be taken once."""
    if _SOLVERS.setdefault(new.name, new) is not new:
        raise PlanError(f"solver {new.name!r} is registered already; choose another name")
    return new


def solver(name: str) -> Solver:
    """Look a solver up."""
    if name not in _SOLVERS:
        raise UnknownKindError(f"unknown solver {name!r}; known: {', '.join(sorted(_SOLVERS))}")
    return _SOLVERS[name]


def solvers() -> tuple[Solver, ...]:
    """Return all registered solvers, in order of registration."""
    return tuple(_SOLVERS.values())


def exact(problem: Problem, x: float) -> Placement | None:
    """Dynamic programming; labels where something is scarce and matters; HiGHS where there are too many labels."""
    free = chain_placement(problem, x)
    if free is None:
        return None
    price = problem.price_of(free.segments, free.hosts)  # in the numbers sold: no more than that is nothing wasted
    if not problem.mixes.size and price <= free.price * (1 + 1e-12) and fits(problem, free, x):
        return free
    try:
        return label_placement(problem, x)
    except TooManyLabelsError:
        return milp_placement(problem, x)


def fits(problem: Problem, placement: Placement, x: float) -> bool:
    """Whether a placement keeps within everything scarce at x rows a second."""
    used = placement.used(problem.types)
    if problem.shards.type >= 0:
        used[problem.shards.type] += placement.hosts
    bought = -(-used // problem.sold_in) * problem.sold_in
    return bool((bought <= problem.cap).all()) and problem.sustained(placement) >= x * (1 - 1e-9)


def greedy(problem: Problem, x: float) -> Placement | None:
    """Each Layer, in order, on the type where it alone is cheapest per row; neighbours on one type form a stage."""
    types = []
    for i, j in itertools.pairwise(problem.order):
        times = [sum(map(np.add, *problem.times(i, j, t))) for t in range(problem.types)]
        price = np.where(_may(problem, i, j), problem.price * np.array(times, float), np.inf)
        types.append(int(np.argmin(price)))
    return sized(problem, runs(problem.order, types), x)


def only(kind: str) -> Solve:
    """Return the exact solver with one kind of type; Layers that cannot run there stay where they must."""

    def solve(problem: Problem, x: float) -> Placement | None:
        mine = np.array([k == kind for k in problem.kinds])
        movable = problem.allowed[:, mine].any(axis=1, keepdims=True)
        return exact(replace(problem, allowed=problem.allowed & (mine | ~movable), mixes=problem.mixes[:0]), x)

    return solve


def brute_force(problem: Problem, x: float) -> Placement | None:
    """Try every sequence of stages on every type."""
    best: Placement | None = None
    for segments in _sequences(problem, x, 0):
        placement = _whole(problem, segments, x)
        if fits(problem, placement, x) and (best is None or placement.price < best.price):
            best = placement
    return best


def _sequences(problem: Problem, x: float, state: int) -> Iterator[tuple[Segment, ...]]:
    if state == problem.states - 1:
        yield ()
    for j in range(state + 1, problem.states):
        if is_inside(problem.words[state], problem.words[j]):
            for t in range(problem.types):
                k = units_needed(x, state, j, t, figures_of(problem), True)
                if k < 2**31:
                    yield from ((Segment(state, j, t, int(k)), *rest) for rest in _sequences(problem, x, j))


def runs(order: Sequence[int], types: Sequence[int]) -> list[tuple[int, int, int]]:
    """Stages (start, stop, type) where neighbours of one type are joined; ``types`` has one entry per step of ``order``."""
    stages: list[tuple[int, int, int]] = []
    for (i, j), t in zip(itertools.pairwise(order), types, strict=True):
        if stages and stages[-1][2] == t:
            stages[-1] = (stages[-1][0], j, t)
        else:
            stages.append((i, j, t))
    return stages


def sized(problem: Problem, stages: Sequence[tuple[int, int, int]], x: float) -> Placement | None:
    """Give each stage the units it needs; None where no number is enough or something scarce runs out."""
    units = [units_needed(x, i, j, t, figures_of(problem), True) for i, j, t in stages]
    if max(units) >= 2**31:
        return None
    placement = _whole(problem, tuple(Segment(*s, int(k)) for s, k in zip(stages, units, strict=True)), x)
    return placement if fits(problem, placement, x) else None


def _whole(problem: Problem, segments: tuple[Segment, ...], x: float) -> Placement:
    hosts = problem.shards.hosts(x)
    return Placement(segments, hosts, price := problem.price_of(segments, hosts), price)


def _may(problem: Problem, i: int, j: int) -> npt.NDArray[np.bool_]:
    return np.asarray(problem.forbidden[i] == problem.forbidden[j])


def _small(problem: Problem) -> str:
    return "" if problem.states * problem.types <= 24 else "more than 24 states x types: it would not end"


register_solver(Solver("exact", exact, "dynamic programming, Pareto labels, HiGHS: proved"))
register_solver(Solver("milp", milp_placement, "HiGHS on the path formulation: proved to its gap"))
register_solver(Solver("brute", brute_force, "every sequence of stages", _small))
register_solver(Solver("greedy", greedy, "each Layer where it alone is cheapest"))
register_solver(Solver("cpu-only", only("cpu"), "the best without GPUs"))
register_solver(Solver("gpu-only", only("gpu"), "GPUs wherever a Layer may run on one"))
