"""The stage of one Layer, within the program over types: how many units have room for it, in whole batches.

Stages that are small have many cuts between them, and a batch is longer on its way for each tensor that crosses one. So
the stage that holds one Layer, the *anchor*, which takes much memory, is looked at as it is. With h batches in the
memory of a worker, h whole, its units are at least ``N/(h-1)`` (a stage that reads is none of these: its type may not
have the first Layer), unless each has room for all N. N, the batches in flight, is a column of the program where there
is a limit to it, so that what crosses makes more of them; else the fewest there are. The product of N and the choice of
h has a column for each h, of which only that of the choice is not 0.
"""

from __future__ import annotations

import numpy as np

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.one_stage import MOST_HELD, Columns, OneStage
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats
from heterps.planner.solve.problem import Problem

__all__ = ["add_anchor_stage"]


def add_anchor_stage(
    program: IntegerProgram,
    problem: Problem,
    small: Problem,
    single: Bools,
    t: int,
    at: Columns,
    sums: list[Floats],
    with_work: bool,
) -> OneStage | None:
    """Add the stage on type t of the Layer that takes most memory there, of those that are one (``single``)."""
    held = np.where(single & small.allowed[:, t], small.layer_held[:, t], 0.0)
    if not held.max(initial=0.0) > 0:
        return None
    stage = _AnchorStage(program, problem, small, t, at, single, with_work)
    stage.add(int(held.argmax()), sums)
    return stage


class _AnchorStage(OneStage):
    def add(self, anchor: int, sums: list[Floats]) -> None:
        """Add all columns and rows."""
        self._add(anchor, sums)
        program, at, chosen, carried, needed = self._program, self._at, [], [], []
        for batches, units in self._ways(self._most_held(anchor)):
            chosen.append(choice := self._add_choice(batches))
            carried.append(flight := program.part())
            needed.append((flight, -units))
            program.row([(flight, 1.0), (choice, -1.0)], -np.inf, 0.0)
        program.row([*((c, 1.0) for c in chosen), (self._is_here, -1.0)], 0.0, 0.0)
        all_ = at.rate if at.flight is None else at.flight
        program.row([*((c, 1.0) for c in carried), (all_, -1.0), (self._is_here, -1.0)], -1.0, np.inf)
        program.row([(self._own, 1.0), *needed], 0.0, np.inf)
        program.row([(self._own, 1.0), (self._is_here, -1.0)], 0.0, np.inf)

    def _ways(self, top: int) -> list[tuple[float, float]]:
        """Batches that must fit into a worker, and units that have room then for as many as there are at most."""
        p, at = self._problem, self._at
        flight = (p.way_from if at.flight is None else p.way_to) * at.high * (1 - TOLERANCE)
        ways = [(float(h), flight / (h - 1)) for h in range(max(2, p.held), min(top, MOST_HELD) + 1)]
        if top > MOST_HELD:
            ways.append((MOST_HELD + 1.0, flight / (top - 1)))
        if (least := max(p.way_from * at.low, float(p.held))) <= top + 1:
            ways.append((least, 0.0))
        return ways
