"""Any DAG at a fixed throughput as an integer program: Layers into slots of a pipeline, slots onto types.

Used where there are too many downsets. Serial parts are left out, so the bound holds for the full model and is exact
where everything scales; the placement is then sized by the full model and the gap is what remains between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heterps.planner.problem import Bools, Floats, Problem
from heterps.planner.rows import Program

__all__ = ["Slots", "slot_program"]


@dataclass(frozen=True)
class Slots:
    """States between the slots, the type of each slot, and the price that no placement undercuts."""

    states: Bools
    types: tuple[int, ...]
    bound: float


def slot_program(
    problem: Problem, x: float, edges: Mapping[tuple[int, int], tuple[float, float]], data_s: Floats, slots: int = 4,
    seconds: float = 60.0,
) -> Slots | None:  # fmt: skip
    """Return the best pipeline of at most ``slots`` stages.

    ``problem`` gives times (its first and last state only), prices and caps; ``edges`` bytes per row, forward and
    backward; ``data_s[t]`` seconds per byte that a unit of type t takes to pass them.
    """
    steps = range(slots)
    program, layers, types = Program(), problem.members.shape[1], problem.types
    put = {
        (v, s, t): program.binary()
        for v in range(layers)
        for s in steps
        for t in range(types)
        if problem.allowed[v, t]
    }
    is_type = {(s, t): program.binary() for s in steps for t in range(types)}
    units = {(s, t): program.integer(float(problem.price[t])) for s in steps for t in range(types)}
    _place(program, put, is_type, layers, slots, types, edges)
    crossing = _crossing(program, put, slots, edges)
    _size(program, problem, x, put, is_type, units, crossing, data_s, slots)
    found = program.solve(seconds)
    if found is None:
        return None
    return _read(found.values, put, is_type, layers, slots, found.bound)


Put = dict[tuple[int, int, int], int]
Slot = dict[tuple[int, int], int]


def _place(
    program: Program, put: Put, is_type: Slot, layers: int, slots: int, types: int, edges: Mapping[tuple[int, int], object]
) -> None:
    """Every Layer in one slot, a slot on one type, nothing before what it depends on."""
    for v in range(layers):
        program.row([(c, 1.0) for (u, _, _), c in put.items() if u == v], 1, 1)
    for s in range(slots):
        program.row([(is_type[s, t], 1.0) for t in range(types)], 0, 1)
    for (_, s, t), column in put.items():
        program.row([(is_type[s, t], 1.0), (column, -1.0)], 0, np.inf)
    for u, v in edges:
        for s in range(slots):
            program.row(_done(put, u, s, 1.0) + _done(put, v, s, -1.0), 0, np.inf)


def _done(put: Put, v: int, slot: int, sign: float) -> list[tuple[int, float]]:
    """Terms of "Layer v lies in this slot or an earlier one"."""
    return [(c, sign) for (u, s, _), c in put.items() if u == v and s <= slot]


def _crossing(
    program: Program, put: Put, slots: int, edges: Mapping[tuple[int, int], tuple[float, float]]
) -> dict[int, list[tuple[int, float]]]:
    """Bytes over the cut after each slot as terms: per source the largest forward and backward of those that cross."""
    bytes_: dict[int, list[tuple[int, float]]] = {s: [] for s in range(slots - 1)}
    for s in bytes_:
        for source in sorted({u for u, _ in edges}):
            ends = [(v, fb) for (u, v), fb in edges.items() if u == source]
            both = [program.continuous(), program.continuous()]
            for v, sizes in ends:
                for column, size in zip(both, sizes, strict=True):
                    terms = _done(put, source, s, -size) + _done(put, v, s, size)
                    program.row([(column, 1.0), *terms], 0, np.inf)
            bytes_[s] += [(column, 1.0) for column in both]
    return bytes_


def _size(
    program: Program, problem: Problem, x: float, put: Put, is_type: Slot, units: Slot,
    crossing: dict[int, list[tuple[int, float]]], data_s: Floats, slots: int,
) -> None:  # fmt: skip
    """Units of a slot cover its compute and its data, within the caps."""
    work = problem_layers(problem) * x
    for (s, t), column in units.items():
        mine = [(v, c) for (v, at, on), c in put.items() if (at, on) == (s, t)]
        program.row([(column, 1.0), (is_type[s, t], -1.0)], 0, np.inf)
        program.row([(column, 1.0)] + [(c, -float(work[0, v, t])) for v, c in mine], 0, np.inf)
        passing = [(c, -float(data_s[t]) * x * w) for cut in (s - 1, s) for c, w in crossing.get(cut, [])]
        most = float(work[1, :, t].sum()) + _largest(crossing, program, data_s[t] * x)
        own = [(c, -float(work[1, v, t])) for v, c in mine]
        program.row([(column, 1.0), (is_type[s, t], -most), *own, *passing], -most, np.inf)
    for t in range(problem.types):
        program.row([(units[s, t], 1.0) for s in range(slots)], 0, float(problem.cap[t]))


def _largest(crossing: dict[int, list[tuple[int, float]]], program: Program, seconds: float) -> float:
    """More data units than any slot can need: relieves a slot that is not on this type."""
    return 2 * seconds * program.largest * max((len(terms) for terms in crossing.values()), default=0)


def problem_layers(problem: Problem) -> Floats:
    """Parallel seconds per row of each single Layer: [2, L, T], recovered from the states."""
    inside = problem.members.astype(float)
    solved = [np.linalg.lstsq(inside, problem.parallel[r], rcond=None)[0] for r in range(2)]
    return np.asarray(solved)


def _read(values: Floats, put: Put, is_type: Slot, layers: int, slots: int, bound: float) -> Slots:
    slot_of = {v: s for (v, s, _), c in put.items() if values[c] > 0.5}
    states = [[slot_of[v] < s for v in range(layers)] for s in range(slots + 1)]
    types = [next((t for (at, t), c in is_type.items() if at == s and values[c] > 0.5), 0) for s in range(slots)]
    keep = [s for s in range(slots) if states[s] != states[s + 1]]
    return Slots(np.array([states[0]] + [states[s + 1] for s in keep], np.bool_), tuple(types[s] for s in keep), bound)
