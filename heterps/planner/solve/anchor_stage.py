"""The stage of one Layer, within the program over types: how many units have room for it, in whole batches.

Of all stages of a type together :mod:`heterps.planner.solve.type_program` knows sums, as if each could be as small as a
Layer. But stages that are small have many cuts between them, and a batch is longer on its way for each tensor that
crosses one. So the stage that holds one Layer, the *anchor*, which takes much memory, is looked at as it is: the part
of every Layer that lies in it, and tensors that cross its ends. With h batches in the memory of a worker, h whole,
its units are at least ``N/(h-1)`` (a stage that reads is none of these: its type may not have the first Layer), unless
each has room for all N; all other stages of the type have the units that their sums take, and one if there are any.

Every plan gives a solution: the Layers of its stage with the anchor are in whole, others are not, h is what fits; where
branches are alike and counted as one, the part of them that lies there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats, Flow
from heterps.planner.solve.problem import Problem

__all__ = ["Columns", "add_anchor_stage"]

_MOST_HELD = 24  # batches in a worker that are told apart
Terms = list[tuple[int, float]]


@dataclass(frozen=True)
class Columns:
    """The program's columns that a stage is tied to; rows a second are parts of ``high``, ways of ``most_way``.

    ``rows`` of each Layer by type, ``messages`` what tensors add to the batches in flight, ``units`` of the type.
    ``shared``: tensors and Layers that stand for several, all of which read that one tensor; and how many they are.
    """

    rate: int
    rows: list[list[int]]
    messages: dict[str, int]
    units: int
    hosts: Terms
    low: float
    high: float
    most_way: float
    shared: dict[tuple[str, int], int]


def add_anchor_stage(
    program: IntegerProgram,
    problem: Problem,
    small: Problem,
    single: Bools,
    t: int,
    at: Columns,
    sums: list[Floats],
) -> None:
    """Add the stage on type t of the Layer that takes most memory there, of those that are one (``single``).

    ``sums`` of work and memory bound the units of stages together.
    """
    held, once = small.layer_held[:, t] / problem.memory_cap[t], small.layer_memory[:, t] / problem.memory_cap[t]
    anchor = int(np.argmax(np.where(single & small.allowed[:, t], held, -1.0)))
    if held[anchor] <= 0 or not (single & small.allowed[:, t])[anchor]:
        return
    _Stage(program, problem, small, t, at).add(anchor, held, once, single, sums)


class _Stage:
    def __init__(self, program: IntegerProgram, problem: Problem, small: Problem, t: int, at: Columns) -> None:
        self._program, self._problem, self._small, self._t, self._at = program, problem, small, t, at

    def add(self, anchor: int, held: Floats, once: Floats, single: Bools, sums: list[Floats]) -> None:
        """Add all columns and rows."""
        program, at = self._program, self._at
        is_here = program.binary()
        self._tie(at.rows[anchor][self._t], is_here)
        program.row([(at.rows[anchor][self._t], 1.0), (is_here, -1.0)], -np.inf, 0.0)
        parts = self._parts(anchor, is_here, single)
        inside = [self._rows_inside(v, part) for v, part in enumerate(parts)]
        crossing = self._crossing(parts)
        own, rest = program.integer(), program.integer()
        program.row([(at.units, 1.0), (own, -1.0), (rest, -1.0), *at.hosts], 0, np.inf)
        self._hold(anchor, is_here, parts, crossing, held, once, own)
        for each in sums:
            scaled = each * at.high * (1 - TOLERANCE)
            program.row([(own, 1.0), *((c, -float(s)) for c, s in zip(inside, scaled, strict=True) if s)], 0, np.inf)
            outside = [((at.rows[v][self._t], -float(s)), (inside[v], float(s))) for v, s in enumerate(scaled) if s]
            program.row([(rest, 1.0), *(term for pair in outside for term in pair)], 0, np.inf)
        for v in np.flatnonzero(single & self._small.allowed[:, self._t]):
            program.row([(rest, 1.0), (at.rows[v][self._t], -1.0), (inside[v], 1.0)], 0, np.inf)

    def _tie(self, column: int, part: int) -> None:
        """Let rows a second be at least those of a part of a Layer: a product of two, from below."""
        at = self._at
        self._program.row([(column, 1.0), (part, -1.0), (at.rate, -1.0)], -1.0, np.inf)
        self._program.row([(column, 1.0), (part, -at.low / at.high)], 0.0, np.inf)

    def _parts(self, anchor: int, is_here: int, single: Bools) -> list[int]:
        """What part of every Layer lies in the stage: all of one that stands for itself, or nothing."""
        program, allowed = self._program, self._small.allowed[:, self._t]
        parts = [
            is_here if v == anchor else program.binary() if ok and single[v] else program.continuous(0.0, float(ok))
            for v, ok in enumerate(allowed)
        ]
        for part in parts:
            if part != is_here:
                program.row([(part, 1.0), (is_here, -1.0)], -np.inf, 0.0)
        return parts

    def _rows_inside(self, v: int, part: int) -> int:
        """Rows a second of a Layer in the stage: of those that are on the type."""
        inside = self._program.continuous()
        self._tie(inside, part)
        self._program.row([(inside, 1.0), (part, -1.0)], -np.inf, 0.0)
        self._program.row([(inside, 1.0), (self._at.rows[v][self._t], -1.0)], -np.inf, 0.0)
        return inside

    def _crossing(self, parts: list[int]) -> Terms:
        """Tensors that cross an end of the stage, and the memory that each takes; they are messages too."""
        program, p, found = self._program, self._problem, {}
        for flow in self._small.flows:
            if flow.tensor not in found:
                found[flow.tensor] = (program.continuous(0.0, 1.0), flow.bytes + flow.back)
            crosses = found[flow.tensor][0]
            program.row([(crosses, 1.0), (parts[flow.source], -1.0), (self._all(flow, parts), 1.0)], 0, np.inf)
            program.row([(crosses, 1.0), (parts[flow.source], 1.0), (parts[flow.target], -1.0)], 0, np.inf)
        for tensor, (crosses, bytes_) in found.items():
            if tensor in self._at.messages:
                moved = program.continuous()
                self._tie(moved, crosses)
                each = -float(bytes_ * p.cut_way[self._t] / self._at.most_way)
                program.row([(self._at.messages[tensor], 1.0), (moved, each)], 0, np.inf)
        return [(c, float(bytes_ * p.cut_memory / p.memory_cap[self._t])) for c, bytes_ in found.values()]

    def _all(self, flow: Flow, parts: list[int]) -> int:
        """The part of a reader that lies in the stage; nothing of several that read one tensor, if one does not.

        It crosses then, however many are left.
        """
        count = self._at.shared.get((flow.tensor, flow.target))
        if count is None:
            return parts[flow.target]
        every, number = self._program.binary(), self._program.integer(0.0, float(count))
        self._program.row([(every, 1.0), (parts[flow.target], -1.0)], -np.inf, 0.0)
        self._program.row([(number, 1.0), (parts[flow.target], -float(count))], 0.0, 0.0)
        return every

    def _hold(
        self, anchor: int, is_here: int, parts: list[int], crossing: Terms, held: Floats, once: Floats, own: int
    ) -> None:
        """Choose how many batches fit into a worker: units follow from that, what may lie in the stage too."""
        program, p, at = self._program, self._problem, self._at
        each = [*((c, float(held[v])) for v, c in enumerate(parts)), *crossing]
        most = sum(size for _, size in each), float(once.sum())
        top = int(min((1 - once[anchor]) / held[anchor] * (1 + TOLERANCE), 1e9))
        flight = p.way_from * at.high * (1 - TOLERANCE)
        # (batches that must fit, units for all rows, units in any case)
        ways = [(float(h), flight / (h - 1), 1.0) for h in range(max(2, p.held), min(top, _MOST_HELD) + 1)]
        if top > _MOST_HELD:
            ways.append((_MOST_HELD + 1.0, flight / (top - 1), 1.0))
        if (least := max(p.way_from * at.low, float(p.held))) <= top + 1:
            ways.append((least, 0.0, 1.0))
        chosen, needed = [], []
        for batches, per_rate, any_ in ways:
            chosen.append(choice := program.binary())
            needed += [(carried := program.continuous(), -per_rate), (choice, -any_)]
            self._limit(carried, choice)
            spare = max(0.0, batches * most[0] + most[1] - 1.0)
            taken = [(c, batches * size) for c, size in each] + [(c, float(once[v])) for v, c in enumerate(parts)]
            program.row([*taken, (choice, spare)], -np.inf, 1.0 + spare + TOLERANCE)
        program.row([*((c, 1.0) for c in chosen), (is_here, -1.0)], 0.0, 0.0)
        carrying = [(c, 1.0) for c, _ in needed[::2]]
        program.row([*carrying, (at.rate, -1.0), (is_here, -1.0)], -1.0, np.inf)
        program.row([(own, 1.0), *((c, s) for c, s in needed[::2])], 0.0, np.inf)
        program.row([(own, 1.0), *((c, s) for c, s in needed[1::2])], 0.0, np.inf)

    def _limit(self, carried: int, choice: int) -> None:
        self._program.row([(carried, 1.0), (choice, -1.0)], -np.inf, 0.0)
