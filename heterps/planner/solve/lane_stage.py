"""The stage that reads, within the program over types: its workers are lanes, and each lane has whole batches.

With L lanes that have d batches each, d whole, M = L d are in flight, at least the number N that is counted: 28 lanes
that need 2.25 have 3. So M, and not N, is what all stages have room for. L is the units of the stage that holds the
first Layer, looked at as it is: with a Layer it holds all that the Layer needs, so it cannot be small unless much
crosses its end. Where another stage lies between it and that of an anchor, what leaves the one and comes to the other
crosses two cuts. The product of L and the choice of d has a column for each d, of which only that of the choice is not
0.

Every plan gives a solution: at most ``way_to`` batches for each row a second are in flight, so L is no more than M/d;
of depths beyond those that are told apart, M is at least that depth times L.
"""

from __future__ import annotations

import numpy as np

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.one_stage import MOST_HELD, Columns, OneStage, Terms
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats
from heterps.planner.solve.problem import Problem

__all__ = ["add_lanes"]


def add_lanes(
    program: IntegerProgram,
    problem: Problem,
    small: Problem,
    single: Bools,
    first: int,
    at: Columns,
    sums: list[list[Floats]],
    later: list[OneStage],
) -> None:
    """Add the stage of the Layer that all others come after, on each type that it may be on; and whole batches.

    ``later`` are stages that are in the program already.
    """
    assert at.flight is not None
    every: Terms = []
    for t in np.flatnonzero(small.allowed[first]):
        stage = _FirstStage(program, problem, small, int(t), at, single, with_work=True)
        every += stage.add(first, sums[t])
        for other in later:
            _part(program, small, stage, other, at)
    most = problem.way_to * at.high
    program.row([(at.flight, most * (1 + TOLERANCE)), *((c, -each) for c, each in every)], 0.0, np.inf)
    program.row([(at.flight, most), *((c, -each * (1 + TOLERANCE)) for c, each in every)], -np.inf, 0.0)


def _part(program: IntegerProgram, small: Problem, first: OneStage, later: OneStage, at: Columns) -> None:
    """Say whether stages lie between two: unless some do, all that the later one needs is in these two.

    What leaves the first and comes to the later one is a message twice then, and comes to the stage behind the first
    one, and leaves the one before the later one, on whatever types these are.
    """
    apart, behind, before = program.binary(), *([program.binary() for _ in range(small.types)] for _ in range(2))
    for types in (behind, before):
        program.row([(apart, -1.0), *((c, 1.0) for c in types)], 0.0, 0.0)
    for flow in small.flows:
        ends = first.parts[flow.source], later.parts[flow.source], apart
        program.row([(later.parts[flow.target], 1.0), *((c, -1.0) for c in ends)], -np.inf, 0.0)
    for flow in {flow.tensor: flow for flow in small.flows}.values():
        leaves, comes = first.moved[flow.tensor][0], later.moved[flow.tensor][1]
        ways = first.way(flow), later.way(flow)
        twice = (leaves, -ways[0]), (comes, -ways[1]), (apart, -sum(ways))
        program.row([(at.messages[flow.tensor], 1.0), *twice], -sum(ways), np.inf)
        for stage in (first, later):
            out, into = stage.moved_outside[flow.tensor]
            program.row([(into, 1.0), (leaves, -1.0), (behind[stage.type], -1.0)], -1.0, np.inf)
            program.row([(out, 1.0), (comes, -1.0), (before[stage.type], -1.0)], -1.0, np.inf)


class _FirstStage(OneStage):
    def add(self, first: int, sums: list[Floats]) -> Terms:
        """Add all columns and rows; return terms of the batches in flight."""
        self._add(first, sums)
        program = self._program
        for flow in self._small.flows:
            program.row([(self.parts[flow.source], 1.0), (self.parts[flow.target], -1.0)], 0.0, np.inf)
        deepest = int(min(self._most_held(first), self._problem.deepest))
        least = max(1, self._problem.held)
        chosen, lanes, flight = [], [], []
        for depth in range(least, min(deepest, MOST_HELD) + 1):
            chosen.append(choice := self._add_choice(float(depth)))
            lanes.append(column := self._add_lanes(choice, depth))
            flight.append((column, float(depth)))
        if deepest > MOST_HELD:
            chosen.append(choice := self._add_choice(MOST_HELD + 1.0))
            lanes.append(column := self._add_lanes(choice, MOST_HELD + 1))
            flight += self._deeper(choice, column)
        program.row([*((c, 1.0) for c in chosen), (self._is_here, -1.0)], 0.0, 0.0)
        program.row([(self._own, 1.0), *((c, -1.0) for c in lanes)], 0.0, 0.0)
        program.row([(self._own, 1.0), (self._is_here, -1.0)], 0.0, np.inf)
        return flight

    def _moved(self, anchor: int) -> list[Terms]:
        """Besides tensors, the gradients of all that is not in the stage: it passes them on."""
        found, small, t, at = super()._moved(anchor), self._small, self._t, self._at
        for v in np.flatnonzero(small.gradients):
            for r, each in enumerate(small.receive_s[:, t] + small.send_s[:, t]):
                size = float(small.gradients[v] * each * at.high * (1 - TOLERANCE))
                found[r] += [(at.rows[anchor][t], -size), (self._inside[v], size)]
        return found

    def _add_lanes(self, choice: int, depth: int) -> int:
        """The column of the lanes if there are so many batches in each: none unless that is the choice."""
        column = self._program.integer()
        most = self._problem.way_to * self._at.high / depth * (1 + TOLERANCE)
        self._program.row([(column, 1.0), (choice, -float(most))], -np.inf, 0.0)
        return column

    def _deeper(self, choice: int, lanes: int) -> Terms:
        """Batches in flight if there are more in a lane than are told apart."""
        most = self._problem.way_to * self._at.high * (1 + TOLERANCE)
        more = self._program.continuous(0.0, most)
        self._program.row([(more, 1.0), (choice, -float(most))], -np.inf, 0.0)
        return [(lanes, MOST_HELD + 1.0), (more, 1.0)]
