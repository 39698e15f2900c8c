"""Where things stand in a row of a group, and the arrays by which compiled loops know it.

A row is a number of 32-bit words: id (2), values of all tables, optimiser slots, counters, time of last use. Everything
one update touches lies on neighbouring cache lines.

Long rows begin at every second word: with an odd number of words a push takes 10 to 15 % longer. The word that this may
cost holds, while somebody follows the changes, the mark after which the row changed last. Rows that may be on disk do
without: the more of them are in memory, the fewer are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.tables.hashing import key_of
from heterps.tables.specs.accessor import COUNTERS
from heterps.tables.specs.initialisers import Initialiser
from heterps.tables.specs.rules import NUMBERS, Rule, Sum
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["RowLayout", "RowSegment"]

#: Fields of the layout array.
STRIDE, VALUE, WIDTH, STATE, HALF, COUNTER, TICK, STAMP = range(8)
#: Words from which on a row has an even number of them: for shorter ones one more would weigh too much.
LONG = 16
#: Fields of a segment's integers; UPDATE is where the loop of its rule is, for who pushes to fill in.
UPDATE, COLUMN, N, SLOT, INIT, GATED = range(6)


@dataclass(frozen=True)
class RowSegment:
    """Columns of a row under one rule and one initialiser; gated ones wait for the row's score."""

    table: str
    column: int
    n: int
    rule: Rule
    init: Initialiser
    gated: bool
    slot: int


class RowLayout:
    """The words of a row of a group.

    ``adds``: what arrives are changes that are added to values; slots are there and stay as they are. ``short``: the
    row has no room for columns that wait for its score (:mod:`~heterps.tables.live.waiting_rows`).
    """

    def __init__(self, group: GroupSpec, seed: int, *, adds: bool = False, short: bool = False) -> None:
        self.group, self.seed, self.adds = group, seed, adds
        self.rate = 1.0  # learning rates are multiplied by it
        self.half = group.dtype == "float16"
        parts = _parts_of(group, short)
        self.width = sum(part.n for part in parts)
        self.value = 2
        self.state = self.value + (-(-self.width // 2) if self.half else self.width)
        self.segments = self._segments(parts)
        end = self.state + sum(s.rule.slots(s.n) for s in self.segments)
        self.slots = end - self.state
        self.counter = end if group.accessor is not None else -1
        self.n_counters = COUNTERS if group.accessor is not None else 0
        end += self.n_counters
        self.tick = end if group.when_full == "least_recent" else -1
        end = max(end + (self.tick >= 0), 3)
        self.stamp = end if end >= LONG and end % 2 and not group.on_disk else -1
        self.stride = end + (self.stamp >= 0)

    def _segments(self, parts: list[_ColumnRun]) -> tuple[RowSegment, ...]:
        out: list[RowSegment] = []
        column, slot = 0, self.state
        for table, n, rule, init, gated in parts:
            out.append(RowSegment(table, column, n, rule, init, gated, slot))
            column += n
            slot += rule.slots(n)
        return tuple(out)

    @property
    def waits(self) -> bool:
        """Whether a row has columns that wait for its score."""
        return any(segment.gated for segment in self.segments)

    def shortened(self) -> RowLayout:
        """Return the layout without those columns."""
        return RowLayout(self.group, self.seed, adds=self.adds, short=True)

    @cached_property
    def slot_columns(self) -> dict[str, slice]:
        """Where the optimiser slots of each table stand, for tables that have any."""
        out: dict[str, slice] = {}
        for s in self.segments:
            start, stop = s.slot, s.slot + s.rule.slots(s.n)
            out[s.table] = slice(out[s.table].start if s.table in out else start, stop)
        return {name: where for name, where in out.items() if where.stop > where.start}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, its id included."""
        return 4 * self.stride

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The layout as loops take it."""
        ends = (self.counter, self.tick, self.stamp)
        return np.array([self.stride, self.value, self.width, self.state, self.half, *ends], np.int64)

    @cached_property
    def segment_numbers(self) -> npt.NDArray[np.int64]:
        """Integers of each segment."""
        rows = [[0, s.column, s.n, s.slot, s.init.code, s.gated] for s in self.segments]
        return np.array(rows, np.int64).reshape(-1, GATED + 1)

    @cached_property
    def init_numbers(self) -> npt.NDArray[np.float64]:
        """The two numbers of each segment's initialiser."""
        return np.array([s.init.numbers(s.n) for s in self.segments], np.float64).reshape(-1, 2)

    @cached_property
    def init_keys(self) -> npt.NDArray[np.uint64]:
        """The key under which each segment's first values are drawn."""
        names = [s.table + ("/embedx" if s.gated else "") for s in self.segments]
        return np.array([key_of(self.seed, name) for name in names], np.uint64)

    @cached_property
    def template(self) -> npt.NDArray[np.float32]:
        """The words of a new row from its optimiser slots on."""
        out = np.zeros(self.stride - self.state, np.float32)
        for s in self.segments:
            first = s.rule.first_slots(s.n)
            out[s.slot - self.state : s.slot - self.state + len(first)] = first
        return out

    @cached_property
    def score_numbers(self) -> npt.NDArray[np.float32]:
        """Coefficients of shows without click and of clicks, and the score from which gated segments live."""
        a = self.group.accessor
        return np.array([0, 0, 0] if a is None else [a.nonclk_coeff, a.click_coeff, a.embedx_threshold], np.float32)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is done with what arrives, by segment."""
        return tuple(self._applied(s.rule) for s in self.segments)

    def rule_numbers(self, step: int) -> npt.NDArray[np.float32]:
        """Numbers of each segment's rule at a step."""
        rows = [rule.at_rate(self.rate).packed(step) for rule in self.rules]
        return np.array(rows, np.float32).reshape(-1, NUMBERS)

    def _applied(self, rule: Rule) -> Rule:
        """What is done with what arrives: where that is a change to be added, the rule was applied elsewhere."""
        return Sum(bounds=rule.bounds) if self.adds else rule

    @property
    def scheduled(self) -> bool:
        """Whether a rule's numbers change from step to step."""
        return any(rule.scheduled for rule in self.rules)


class _ColumnRun(NamedTuple):
    """Columns of a table under one rule and one initialiser."""

    table: str
    n: int
    rule: Rule
    init: Initialiser
    gated: bool


def _parts_of(group: GroupSpec, short: bool) -> list[_ColumnRun]:
    parts = [part for table in group.tables for part in _parts(table)]
    return [part for part in parts if not (short and part.gated)]


def _parts(table: TableSpec) -> list[_ColumnRun]:
    """Split a table's columns into those every row has and those that wait for the score."""
    a = table.accessor
    if a is None or a.embed == table.dim:
        return [_ColumnRun(table.name, table.dim, table.rule, table.init, False)]
    parts = [_ColumnRun(table.name, a.embed, table.rule, table.init, False)] if a.embed else []
    rule, init = a.embedx_rule or table.rule, a.embedx_init or table.init
    return [*parts, _ColumnRun(table.name, table.dim - a.embed, rule, init, True)]
