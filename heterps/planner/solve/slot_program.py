"""Any DAG at a fixed throughput as an integer program: Layers into slots of a pipeline, slots onto types.

Used where there are too many downsets. Serial parts and gradients that are passed on are left out, so the bound holds
for the full model and is exact where everything scales and nothing is passed on; the placement is then sized by the
full model and the gap is what remains between the two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.placement import Bools, Floats, Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.sizing import sized

__all__ = ["slot_placement"]


class _Columns:
    """The variables: Layer v in slot s on type t; the type of a slot; its units; tensors over the cut after it."""

    def __init__(self, problem: Problem, program: IntegerProgram, slots: int) -> None:
        self.slots = range(slots)
        kinds = [(s, t) for s in self.slots for t in range(problem.types)]
        self.put = {
            (v, s, t): program.binary() for v in range(problem.layers) for s, t in kinds if problem.allowed[v, t]
        }
        self.on = {key: program.binary() for key in kinds}
        self.units = {(s, t): program.integer(float(problem.price[t])) for s, t in kinds}
        self.sizes = {flow.tensor: (flow.bytes, flow.back) for flow in sorted(problem.flows, key=lambda f: f.tensor)}
        self.crosses = {(s, name): program.part() for s in self.slots[:-1] for name in self.sizes}

    def done(self, v: int, slot: int, sign: float) -> list[tuple[int, float]]:
        """Terms of "Layer v lies in this slot or an earlier one"."""
        return [(c, sign) for (u, s, _), c in self.put.items() if u == v and s <= slot]

    def crossing(self, slot: int, receive_s: float, send_s: float) -> list[tuple[int, float]]:
        """Terms of the time that tensors over the cuts before and after a slot take there, negative."""
        terms = []
        for (s, name), column in self.crosses.items():
            forward, back = self.sizes[name]
            if s == slot:
                terms.append((column, -forward * send_s - back * receive_s))
            elif s == slot - 1:
                terms.append((column, -forward * receive_s - back * send_s))
        return terms


def slot_placement(problem: Problem, x: float, slots: int = 4, seconds: float = 60.0) -> tuple[Bools, Placement] | None:
    """Return the best pipeline of at most ``slots`` stages, with the states between them; None if there is none."""
    program = IntegerProgram()
    columns = _Columns(problem, program, slots)
    _add_places(program, columns, problem)
    _add_units(program, columns, problem, x)
    found = program.solve(seconds)
    if found is None:
        return None
    states, types = _read(found.values, columns, problem.layers)
    stages = [(i, i + 1, t) for i, t in enumerate(types)]
    placement = sized(replace(problem, members=states), stages, x)
    bound = found.bound + problem.host_price * problem.shards.hosts(x)
    return None if placement is None else (states, replace(placement, bound=min(bound, placement.price)))


def _add_places(program: IntegerProgram, columns: _Columns, problem: Problem) -> None:
    """Every Layer in one slot, a slot on one type, nothing before what it depends on."""
    for v in range(problem.layers):
        program.row([(c, 1.0) for (u, _, _), c in columns.put.items() if u == v], 1, 1)
    for slot in columns.slots:
        program.row([(c, 1.0) for (s, _), c in columns.on.items() if s == slot], 0, 1)
    for (_, s, t), column in columns.put.items():
        program.row([(columns.on[s, t], 1.0), (column, -1.0)], 0, np.inf)
    for flow in problem.flows:
        for s in columns.slots:
            program.row(columns.done(flow.source, s, 1.0) + columns.done(flow.target, s, -1.0), 0, np.inf)
        for s in columns.slots[:-1]:
            terms = columns.done(flow.source, s, -1.0) + columns.done(flow.target, s, 1.0)
            program.row([(columns.crosses[s, flow.tensor], 1.0), *terms], 0, np.inf)


def _add_units(program: IntegerProgram, columns: _Columns, problem: Problem, x: float) -> None:
    """Units of a slot cover its compute and its data, within the caps."""
    work = problem.layer_parallel * x
    crossing = sum(forward + back for forward, back in columns.sizes.values())
    for (s, t), units in columns.units.items():
        mine = [(v, c) for (v, at, on), c in columns.put.items() if (at, on) == (s, t)]
        program.row([(units, 1.0), (columns.on[s, t], -1.0)], 0, np.inf)
        for r in range(len(work)):
            receive_s, send_s = float(problem.receive_s[r, t]) * x, float(problem.send_s[r, t]) * x
            # What crosses beside a slot counts only if the slot is on this type.
            relief = 2 * crossing * max(receive_s, send_s)
            taken = [(c, -float(work[r, v, t])) for v, c in mine] + columns.crossing(s, receive_s, send_s)
            program.row([(units, 1.0), (columns.on[s, t], -relief), *taken], -relief, np.inf)
    for t in range(problem.types):
        program.row([(c, 1.0) for (_, on), c in columns.units.items() if on == t], 0, float(problem.cap[t]))


def _read(values: Floats, columns: _Columns, layers: int) -> tuple[Bools, list[int]]:
    where = {v: (s, t) for (v, s, t), c in columns.put.items() if values[c] > 0.5}
    used = sorted(set(where.values()))
    states = [[where[v] < at for v in range(layers)] for at in used] + [[True] * layers]
    return np.array(states, np.bool_), [t for _, t in used]
