"""One stage as it is, within the program over types: what lies in it, what crosses its ends, its units and all others.

Of all stages of a type together :mod:`heterps.planner.solve.type_program` knows sums, as if each could be as small as a
Layer. A stage that holds a given Layer has columns of its own here: the part of every Layer that lies in it, and
tensors that cross its ends. All other stages of the type have the units that their sums take, and one if there are any.

Every plan gives a solution: the Layers of its stage with the given one are in whole, others are not; where branches are
alike and counted as one, the part of them that lies there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.placement import TOLERANCE, Bools, Floats, Flow
from heterps.planner.solve.problem import Problem

__all__ = ["MOST_HELD", "Columns", "OneStage", "Terms"]

MOST_HELD = 24  # batches in a worker that are told apart
Terms = list[tuple[int, float]]


@dataclass(frozen=True)
class Columns:
    """The program's columns that a stage is tied to; rows a second are parts of ``high``, ways of ``most_way``.

    ``rows`` of each Layer by type, ``messages`` what tensors add to the batches in flight, ``flight`` these, as part of
    the most that there may be (None: there is no such limit), ``units`` of each type, ``hosts`` the shard hosts.
    ``shared``: tensors and Layers that stand for several, all of which read that one tensor; and how many they are.
    """

    rate: int
    rows: list[list[int]]
    messages: dict[str, int]
    flight: int | None
    units: list[int]
    hosts: int
    low: float
    high: float
    most_way: float
    shared: dict[tuple[str, int], int]


class OneStage:
    """The stage on a type that holds one Layer, the *anchor*, wherever that Layer is on the type.

    ``single``: Layers that stand for themselves. ``sums`` of work and memory bound the units of stages together.
    ``with_work``: what crosses takes time of its units, and of all others; without, the program is smaller.
    """

    def __init__(
        self,
        program: IntegerProgram,
        problem: Problem,
        small: Problem,
        t: int,
        at: Columns,
        single: Bools,
        with_work: bool,
    ) -> None:
        self._with_work = with_work
        self._program, self._problem, self._small, self._t, self._at = program, problem, small, t, at
        self.type, self._single = t, single & small.allowed[:, t]
        self._held = small.layer_held[:, t] / problem.memory_cap[t]
        self._once = small.layer_memory[:, t] / problem.memory_cap[t]
        self.parts: list[int] = []
        self.moved: dict[str, tuple[int, int]] = {}  # rows a second of tensors that leave the stage, and that come
        self.moved_outside: dict[str, tuple[int, int]] = {}  # the same of all other stages of the type together

    def _add(self, anchor: int, sums: list[Floats]) -> None:
        """Add all columns and rows but those of batches."""
        program, at, rows = self._program, self._at, self._at.rows[anchor][self._t]
        self._is_here = program.binary()
        program.row([(rows, 1.0), (self._is_here, -1.0)], -np.inf, 0.0)
        self.parts = self._add_parts(anchor)
        inside = [self._rows_inside(v, part) for v, part in enumerate(self.parts)]
        self._crossing = self._add_crossing()
        self._own, rest = program.integer(), program.integer()
        hosts = [(at.hosts, -1.0)] if self._problem.shards.type == self._t else []
        program.row([(at.units[self._t], 1.0), (self._own, -1.0), (rest, -1.0), *hosts], 0, np.inf)
        self._inside = inside
        mine, others = self._moved(anchor), self._moved_outside() if self._with_work else []
        mine = mine if self._with_work else []
        for r, each in enumerate(sums):
            scaled = each * at.high * (1 - TOLERANCE)
            worked = [(c, -float(s)) for c, s in zip(inside, scaled, strict=True) if s]
            program.row([(self._own, 1.0), *worked, *(mine[r] if r < len(mine) else ())], 0, np.inf)
            outside = [(c, -float(s)) for v, s in enumerate(scaled) if s for c, s in self._outside(v, s)]
            program.row([(rest, 1.0), *outside, *(others[r] if r < len(others) else ())], 0, np.inf)
        for v in np.flatnonzero(self._single):
            program.row([(rest, 1.0), (at.rows[v][self._t], -1.0), (inside[v], 1.0)], 0, np.inf)

    def _tie(self, column: int, part: int) -> None:
        """Let rows a second be at least those of a part of a Layer: a product of two, from below."""
        at = self._at
        self._program.row([(column, 1.0), (part, -1.0), (at.rate, -1.0)], -1.0, np.inf)
        self._program.row([(column, 1.0), (part, -at.low / at.high)], 0.0, np.inf)

    def _add_parts(self, anchor: int) -> list[int]:
        """What part of every Layer lies in the stage: all of one that stands for itself, or nothing."""
        program, allowed = self._program, self._small.allowed[:, self._t]
        parts = [
            self._is_here if v == anchor else program.binary() if self._single[v] else program.continuous(0, float(ok))
            for v, ok in enumerate(allowed)
        ]
        for part in parts:
            if part != self._is_here:
                program.row([(part, 1.0), (self._is_here, -1.0)], -np.inf, 0.0)
        return parts

    def _rows_inside(self, v: int, part: int) -> int:
        """Rows a second of a Layer in the stage: of those that are on the type."""
        inside = self._program.part()
        self._tie(inside, part)
        self._program.row([(inside, 1.0), (part, -1.0)], -np.inf, 0.0)
        self._program.row([(inside, 1.0), (self._at.rows[v][self._t], -1.0)], -np.inf, 0.0)
        return inside

    def _add_crossing(self) -> Terms:
        """Tensors that leave the stage, or come to it, and the memory that each takes; they are messages too.

        One whose source is in the stage does not come to it.
        """
        program, p, parts = self._program, self._problem, self.parts
        self._ends: dict[str, tuple[int, int, Flow]] = {}
        for flow in self._small.flows:
            if flow.tensor not in self._ends:
                leaves = program.part()
                self._ends[flow.tensor] = (leaves, program.part() if self._with_work else leaves, flow)
            leaves, comes, _ = self._ends[flow.tensor]
            program.row([(leaves, 1.0), (parts[flow.source], -1.0), (self._all(flow), 1.0)], 0, np.inf)
            program.row([(comes, 1.0), (parts[flow.source], 1.0), (parts[flow.target], -1.0)], 0, np.inf)
        return [
            (column, float((flow.bytes + flow.back) * p.cut_memory / p.memory_cap[self._t]))
            for *both, flow in self._ends.values()
            for column in dict.fromkeys(both)
        ]

    def _moved(self, anchor: int) -> list[Terms]:
        """Units that what crosses the ends of the stage takes, by resource, negative; a message is as long as it is."""
        found: list[Terms] = [[] for _ in self._small.receive_s]
        for tensor, (*both, flow) in self._ends.items():
            leaves = self._program.part()
            self.moved[tensor] = moved = leaves, self._program.part() if self._with_work else leaves
            way = self.way(flow)
            for rows, part in dict(zip(moved, both, strict=True)).items():
                self._tie(rows, part)
                if tensor in self._at.messages:
                    self._program.row([(self._at.messages[tensor], 1.0), (rows, -way)], 0, np.inf)
            self._take(found, moved, flow)
        return found

    def way(self, flow: Flow) -> float:
        """What a tensor that crosses an end of the stage adds to the batches in flight."""
        return float((flow.bytes + flow.back) * self._problem.cut_way[self._t] / self._at.most_way)

    def _moved_outside(self) -> list[Terms]:
        """The same of all other stages of the type together."""
        found: list[Terms] = [[] for _ in self._small.receive_s]
        columns = self.moved_outside
        for flow in self._small.flows:
            if flow.tensor not in columns:
                columns[flow.tensor] = self._program.part(), self._program.part()
                self._take(found, columns[flow.tensor], flow)
            ends = self._outside(flow.source), self._outside(flow.target)
            for column, (there, here) in zip(columns[flow.tensor], (ends, ends[::-1]), strict=True):
                terms = [*((c, -s) for c, s in there), *here]
                self._program.row([(column, 1.0), *terms], 0, np.inf)
        return found

    def _outside(self, v: int, times: float = 1.0) -> Terms:
        """Rows a second of a Layer that are on the type, but not in the stage."""
        return [(self._at.rows[v][self._t], times), (self._inside[v], -times)]

    def _take(self, found: list[Terms], moved: tuple[int, int], flow: Flow) -> None:
        """Add what a tensor takes that leaves, or comes, by resource."""
        small, t = self._small, self._t
        for column, (out, into) in zip(moved, ((flow.bytes, flow.back), (flow.back, flow.bytes)), strict=True):
            for r, terms in enumerate(found):
                each = float(out * small.send_s[r, t] + into * small.receive_s[r, t])
                terms.append((column, -each * self._at.high * (1 - TOLERANCE)))

    def _all(self, flow: Flow) -> int:
        """The part of a reader that lies in the stage; nothing of several that read one tensor, if one does not.

        It crosses then, however many are left.
        """
        count, part = self._at.shared.get((flow.tensor, flow.target)), self.parts[flow.target]
        if count is None:
            return part
        every, number = self._program.binary(), self._program.integer(0.0, float(count))
        self._program.row([(every, 1.0), (part, -1.0)], -np.inf, 0.0)
        self._program.row([(number, 1.0), (part, -float(count))], 0.0, 0.0)
        return every

    def _add_choice(self, batches: float) -> int:
        """A column that is 1 only where so many batches fit into a worker of the stage."""
        each = [*((c, float(self._held[v])) for v, c in enumerate(self.parts)), *self._crossing]
        taken = [(c, batches * size) for c, size in each]
        taken += [(c, float(self._once[v])) for v, c in enumerate(self.parts)]
        spare = max(0.0, sum(size for _, size in taken) - 1.0)
        self._program.row([*taken, (choice := self._program.binary(), spare)], -np.inf, 1.0 + spare + TOLERANCE)
        return choice

    def _most_held(self, anchor: int) -> int:
        """Batches of which a worker has room for no more, by the anchor alone."""
        if not self._held[anchor]:
            return int(1e9)
        return int(min((1 - self._once[anchor]) / self._held[anchor] * (1 + TOLERANCE), 1e9))
