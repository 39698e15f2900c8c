"""Solvers by name: functions ``(problem, rows_per_second) -> Placement | None`` on plain arrays.

``exact`` is the one that plans are made with; the others are there to be compared with. Anyone can register more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError, UnknownKindError
from heterps.planner.solve.chain import chain_placement, is_inside, units_needed
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.multipliers import multiplier_placement
from heterps.planner.solve.pareto import TooManyLabelsError, label_placement
from heterps.planner.solve.placement import Placement, Segment
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import Solve
from heterps.planner.solve.sizing import MOST_WORKERS, fits, runs, sized, whole

__all__ = ["Solver", "register_solver", "solver", "solvers"]


@dataclass(frozen=True)
class Solver:
    """A named way of placing. ``applies(problem)`` says why it cannot be used, or nothing.

    ``solve`` returns None only where it has proved that there is no placement; it raises UndecidedError where it does
    not know. ``timed`` is the same with a Deadline. ``proves`` says that bounds of its placements hold for all others,
    not only for those of its kind.
    """

    name: str
    solve: Solve
    doc: str
    applies: Callable[[Problem], str] = lambda problem: ""
    timed: Callable[[Problem, float, Deadline], Placement | None] | None = None
    proves: bool = False

    def within(self, deadline: Deadline) -> Solve:
        """The solver as a function that ends in time, if it knows how, and refuses what it does not apply to."""

        def placed(problem: Problem, x: float) -> Placement | None:
            if reason := self.applies(problem):
                raise PlanError(
                    f"solver {self.name!r} cannot be used here ({reason}): take another (solver=, --solver)"
                )
            if not problem.shards.carry(x):
                return None
            called = problem.calling(problem.shards.hosts(x))
            return self.solve(called, x) if self.timed is None else self.timed(called, x, deadline)

        return placed


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


def exact(problem: Problem, x: float, deadline: Deadline = NEVER) -> Placement | None:
    """Dynamic programming; labels where something is scarce and matters; where these are too many, a program."""
    free = chain_placement(problem, x)
    if free is None or not (problem.is_coupled or problem.mixes.size):
        return free
    price = problem.price_of(free.segments, free.hosts)  # in the numbers sold: no more than that is nothing wasted
    if not problem.mixes.size and price <= free.price * (1 + 1e-12) and fits(problem, free, x):
        return free
    try:
        return label_placement(problem, x)
    except TooManyLabelsError as error:
        found = _without_labels(problem, x, deadline)
        return found and replace(found, bound=min(found.price, max(found.bound, error.bound)))


def _without_labels(problem: Problem, x: float, deadline: Deadline) -> Placement | None:
    """An integer program where it is not too large and ends in time, else prices that keep stages within the caps."""
    try:
        return milp_placement(problem, x, seconds=min(20.0, deadline.left / 4))
    except UndecidedError:
        return multiplier_placement(problem, x, deadline)


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
    return lambda problem, x: exact(_restricted(problem, kind), x)


@lru_cache(maxsize=4)  # a search asks for one problem at many throughputs
def _restricted(problem: Problem, kind: str) -> Problem:
    """The problem without types of another kind, but for Layers that can run nowhere else."""
    mine = np.array([k == kind for k in problem.kinds])
    movable = problem.allowed[:, mine].any(axis=1, keepdims=True)
    return replace(problem, allowed=problem.allowed & (mine | ~movable), mixes=problem.mixes[:0])


def brute_force(problem: Problem, x: float) -> Placement | None:
    """Try every sequence of stages on every type."""
    best: Placement | None = None
    stages = _stages(problem, x)
    for segments in _sequences(stages, 0, problem.states - 1):
        placement = whole(problem, segments, x)
        if (best is None or placement.price < best.price) and fits(problem, placement, x):
            best = placement
    return best


def _stages(problem: Problem, x: float) -> dict[int, list[Segment]]:
    """Every stage that some number of units can carry, by the state where it starts."""
    found: dict[int, list[Segment]] = {}
    figures = problem.stage_figures
    for i, j in itertools.combinations(range(problem.states), 2):
        if is_inside(problem.words, i, j):
            units = [units_needed(x, i, j, t, figures, True) for t in range(problem.types)]
            stages = [Segment(i, j, t, int(k)) for t, k in enumerate(units) if k < MOST_WORKERS]
            found[i] = found.get(i, []) + stages
    return found


def _sequences(stages: dict[int, list[Segment]], state: int, last: int) -> Iterator[tuple[Segment, ...]]:
    if state == last:
        yield ()
    for stage in stages.get(state, ()):
        yield from ((stage, *rest) for rest in _sequences(stages, stage.stop, last))


def _may(problem: Problem, i: int, j: int) -> npt.NDArray[np.bool_]:
    return np.asarray(problem.forbidden[i] == problem.forbidden[j])


def _small(problem: Problem) -> str:
    return "" if problem.states * problem.types <= 24 else "more than 24 states x types: it would not end"


register_solver(
    Solver("exact", exact, "dynamic programming, Pareto labels, programs: proved", timed=exact, proves=True)
)
register_solver(Solver("milp", milp_placement, "an integer program of paths: proved to its gap", proves=True))
register_solver(Solver("brute", brute_force, "every sequence of stages", _small))
register_solver(Solver("greedy", greedy, "each Layer where it alone is cheapest"))
register_solver(Solver("cpu-only", only("cpu"), "the best without GPUs"))
register_solver(Solver("gpu-only", only("gpu"), "GPUs wherever a Layer may run on one"))
