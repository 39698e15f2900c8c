"""Integer programming at a fixed throughput: stages as a path through the states, with side conditions.

One binary per possible stage, flow conservation at every state (by type, where links count), one row per scarce thing,
an integer per product that is sold whole. A gap of zero is the certificate. Its stages are on
one type each: where stages on two are allowed, its plan is one of many, and the bound that of fractions of units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heterps.planner.solve.chain import is_inside, pairs_inside, relaxed_price, units_needed
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.placement import Placement, Segment
from heterps.planner.solve.problem import Problem

__all__ = ["MOST_COLUMNS", "milp_placement"]

MOST_COLUMNS = 100_000  # some 200 MB while the program is built and solved


def milp_placement(problem: Problem, x: float, seconds: float = 60.0) -> Placement | None:
    """Cheapest placement at x rows a second within ``seconds``; its ``bound`` is what is proved. None: none.

    Raises
    ------
    UndecidedError
        If the program would be too large for memory, nothing was found in time, or stages on two types might do.
    """
    found = _on_one_type(problem, x, seconds)
    if not problem.mixes.size:
        return found
    if found is None:
        raise UndecidedError(f"at {x:g} rows a second stages on two types were not looked at")
    return replace(found, bound=min(found.bound, relaxed_price(problem, x)))


def _on_one_type(problem: Problem, x: float, seconds: float) -> Placement | None:
    if pairs_inside(problem.words) * problem.types > MOST_COLUMNS:
        raise UndecidedError(f"more than {MOST_COLUMNS:,} possible stages: too many for an integer program")
    stages, hosts = _stages(problem, x), problem.shards.hosts(x)
    if not stages:
        return None
    program = IntegerProgram()
    products = [
        program.integer(*each) for each in zip(problem.product_price, _most(problem, stages, hosts), strict=True)
    ]
    each = np.where(problem.packed, 0.0, problem.price)  # what is not part of a larger product is paid by the stage
    columns = [program.binary(each[s.type] * s.units) for s in stages]
    _add_path(program, problem, stages, columns)
    _add_scarce(program, problem, stages, columns, products, x, hosts)
    found = program.solve(seconds)
    if found is None:
        return None
    chosen = sorted((s for s, c in zip(stages, columns, strict=True) if found.values[c] > 0.5), key=lambda s: s.start)
    price = problem.price_of(tuple(chosen), hosts)
    bound = min(price, found.bound + price - found.value)  # the program leaves the shard hosts out
    return Placement(tuple(chosen), hosts, price, bound)


def _most(problem: Problem, stages: list[Segment], hosts: int) -> npt.NDArray[np.float64]:
    """More of each product than any path needs: without a limit nothing is proved."""
    units = problem.layers * max(stage.units for stage in stages) + hosts
    return np.minimum(problem.product_cap, float(units))


def _stages(problem: Problem, x: float) -> list[Segment]:
    """Every stage that some number of units within the caps can carry."""
    words, figures = problem.words, problem.stage_figures
    stages = []
    for i in range(problem.states):
        for j in range(i + 1, problem.states):
            if is_inside(words, i, j):
                units = [units_needed(x, i, j, t, figures, True) for t in range(problem.types)]
                stages += [Segment(i, j, t, int(k)) for t, k in enumerate(units) if k <= min(problem.cap[t], 2**31)]
    return stages


def _add_path(program: IntegerProgram, problem: Problem, stages: list[Segment], columns: list[int]) -> None:
    """What enters a state leaves it: one path from nothing to all."""
    last, types, by_type = problem.states - 1, problem.types, problem.has_links
    enter: dict[tuple[int, int], list[int]] = {}
    leave: dict[tuple[int, int], list[int]] = {}
    for stage, column in zip(stages, columns, strict=True):
        t = stage.type if by_type else 0
        leave.setdefault((stage.start, t), []).append(column)
        enter.setdefault((stage.stop, t), []).append(column)
    program.row([(c, 1.0) for (state, _), cs in leave.items() if state == 0 for c in cs], 1, 1)
    program.row([(c, 1.0) for (state, _), cs in enter.items() if state == last for c in cs], 1, 1)
    for state in range(1, last):
        if by_type:
            _add_turns(
                program, problem, [(enter.get((state, t), []), leave.get((state, t), [])) for t in range(types)], state
            )
        else:
            into, out = enter.get((state, 0), []), leave.get((state, 0), [])
            program.row([(c, 1.0) for c in into] + [(c, -1.0) for c in out], 0, 0)


def _add_turns(program: IntegerProgram, problem: Problem, flows: list[tuple[list[int], list[int]]], state: int) -> None:
    """Split the flow through a state by (type before, type after), so that a link can be charged."""
    turns = {(a, b): program.part() for a in range(len(flows)) for b in range(len(flows))}
    for t, (into, out) in enumerate(flows):
        program.row([(c, 1.0) for c in into] + [(turns[t, b], -1.0) for b in range(len(flows))], 0, 0)
        program.row([(c, 1.0) for c in out] + [(turns[a, t], -1.0) for a in range(len(flows))], 0, 0)
    for (a, b), column in turns.items():
        for ends, bytes_ in problem.turned(a, b, state).items():
            if problem.link[ends] >= 0:
                program.turns.setdefault(int(problem.link[ends]), []).append((column, bytes_))


def _add_scarce(
    program: IntegerProgram,
    problem: Problem,
    stages: list[Segment],
    columns: list[int],
    products: list[int],
    x: float,
    hosts: int,
) -> None:
    """Units within caps and products, shared capacities within what there is, batches in flight within their limit."""
    for t in range(problem.types):
        units = [(c, float(s.units)) for s, c in zip(stages, columns, strict=True) if s.type == t]
        carried = hosts if problem.shards.type == t else 0
        program.row(units, -np.inf, float(problem.cap[t]) - carried)
        if problem.packed[t]:
            whole, each = products[problem.product[t]], float(problem.sold_in[t])
            program.row([*units, (whole, -each)], -np.inf, -carried)
            program.row([(whole, each)], -np.inf, float(problem.cap[t]))
    for h, capacity in enumerate(problem.capacity):
        taken = [(c, _taken(problem, s, h) * x) for s, c in zip(stages, columns, strict=True)]
        taken += [(c, bytes_ * x) for c, bytes_ in program.turns.get(h, ())]
        program.row(taken, -np.inf, float(capacity - problem.fixed_usage[h] * x))
    if np.isfinite(most_way := problem.most_way(x)):
        ways = [(c, problem.way_added(s)) for s, c in zip(stages, columns, strict=True)]
        program.row(ways, -np.inf, most_way - problem.way)


def _taken(problem: Problem, segment: Segment, h: int) -> float:
    i, j, t = segment.start, segment.stop, segment.type
    use: npt.NDArray[np.float64] = (
        problem.usage[h, j] - problem.usage[h, i] + problem.cut_usage[0, h, i] + problem.cut_usage[1, h, j]
    )
    return float(use[t])
