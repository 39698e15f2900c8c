"""The least of a linear program in whole numbers, by dividing it: branch and bound whose every leaf is proved here.

A part of the program is what lies within limits of its columns, which are narrowed by its rows first. It is closed if
that leaves nothing, or if prices of its rows prove that nothing in it costs less than what is to be undercut
(:mod:`heterps.planner.solve.row_prices`); a solver finds these prices, and is believed nothing. Where the point that it
finds has whole numbers where they must be, that is a solution. Else a part is divided at a number that is not whole:
its two parts hold all that is whole in it. What no solution undercuts is the least of the best solution and of what is
proved of the parts that are open.

Divided is at the number that is least whole, first of those that may be more than one: machines before places. Most
programs end soon that way. In one that does not it is tried where to divide: both parts of a few are solved for some
steps, and how much their bounds rise is remembered for the next time.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.planner.solve.effort import Deadline
from heterps.planner.solve.narrowing import Narrowing
from heterps.planner.solve.placement import Bools, Floats
from heterps.planner.solve.row_prices import Ends, LinearRows
from heterps.planner.solve.simplex import ANY, Simplex, Vertex

__all__ = ["Branching", "LeastFound"]

Ints = npt.NDArray[np.int64]
_WHOLE = 1e-6  # by which a whole number may be missed
_KEPT = 1e-6  # of the dearest column, by which something may be dearer that is just cheap enough
_SAME = 1e-9  # relative: values that are not told apart
_PLAIN = 200  # parts that are divided without trying
_TRIED, _STEPS, _KNOWN = 8, 50, 8  # numbers that are tried, for so many steps, until each was so many times
_SOME = 2  # that are enough where a part is closed
_LITTLE = 1e-2  # of what a part must rise to be closed: less does not tell numbers apart


@dataclass(frozen=True)
class LeastFound:
    """The best solution (None: none was found), what it costs, and what none undercuts."""

    values: Floats | None
    value: float
    bound: float


@dataclass(order=True)
class _Branch:
    """What lies within limits, of which nothing costs less than the bound; and where the solver may begin.

    That of the least rank is looked at next: the nearer half of what was just divided, or where least is proved.
    """

    rank: float
    turn: int
    bound: float = field(compare=False)
    limits: Ends = field(compare=False)
    start: Any = field(compare=False, default=None)


@dataclass(frozen=True)
class _Looked:
    """A part after it was looked at: its limits are narrower, its bound is closer."""

    limits: Ends
    point: Vertex
    bound: float


class Branching:
    """Minimise ``cost @ x`` within rows, some of x whole, of what costs at most ``dearest``, to within ``close``."""

    def __init__(
        self, cost: Floats, rows: LinearRows, whole: Bools, dearest: float = np.inf, close: float = 0.0
    ) -> None:
        self._scale = float(abs(cost).max(initial=0.0)) or 1.0  # prices are found to a size, whatever the cost's
        self._cost, self._rows = cost / self._scale, rows
        self._is_whole, self._whole = whole, np.flatnonzero(whole)
        self._simplex, self._narrowing = Simplex(self._cost, rows), Narrowing(rows, self._cost, whole)
        self._found, self._close = LeastFound(None, dearest / self._scale, -np.inf), close / self._scale
        self._risen, self._times = np.zeros((2, len(cost))), np.zeros((2, len(cost)))  # of the parts below and above
        self._turns, self._plain = itertools.count(), _PLAIN
        self._is_wide = np.zeros(len(cost), np.bool_)

    def least(self, limits: Ends, deadline: Deadline) -> LeastFound:
        """Return what was found within the time; its bound is inf where it is proved that there is nothing."""
        self._is_wide = limits[1] > 1
        open_, lost = [_Branch(-np.inf, next(self._turns), -np.inf, limits)], np.inf
        while open_ and not deadline.over:
            bound, parts = self._divided(heapq.heappop(open_), deadline)
            if parts is None:
                lost = min(lost, bound)  # of what cannot be divided
            for part in parts or ():
                heapq.heappush(open_, part)
        ends = [np.inf if self._found.values is None else self._wanted, lost, *(each.bound for each in open_)]
        return LeastFound(self._found.values, self._found.value * self._scale, min(ends) * self._scale)

    def _divided(self, part: _Branch, deadline: Deadline) -> tuple[float, list[_Branch] | None]:
        """What nothing in a part undercuts, and its parts, none if it is closed; None if it is not, and has none."""
        if self._is_closed(part.bound) or (look := self._look(part, deadline)) is None:
            return self._wanted, []
        point, at = look.point, None
        if not self._is_closed(look.bound):
            best = point.is_best and self._rows.holds(point.values)
            at = self._column(look, deadline) if best else self._widest(look.limits)
            if at is None and best:
                look = self._kept(look)
        if self._is_closed(look.bound):
            return self._wanted, []
        if at is None:
            return look.bound, None
        halves = _halves(look, at)
        nearer = int(point.values[at] % 1.0 > 0.5)
        ranks = [-np.inf if n == nearer else look.bound for n in range(2)]
        parts = zip(ranks, halves, strict=True)
        return look.bound, [_Branch(rank, next(self._turns), look.bound, half, point.start) for rank, half in parts]

    def _is_closed(self, bound: float) -> bool:
        """Whether nothing that is not undercut is better than what was found, or cheap enough where nothing was."""
        wanted = self._wanted
        return bound > wanted if self._found.values is None else bound >= wanted - _SAME * abs(wanted)

    @property
    def _wanted(self) -> float:
        """What is to be undercut: by less than what is close nothing is worth looking for."""
        return self._found.value if self._found.values is None else self._found.value - self._close

    def _look(self, part: _Branch, deadline: Deadline, steps: int = ANY) -> _Looked | None:
        """Look at a part; None if there is nothing in it that is not dearer than what was found."""
        limits = self._narrowing.within(part.limits, self._wanted)
        if limits is None:
            return None
        point = self._simplex.best(self._wholes(limits, part.limits), part.start, max(deadline.left, 0.01), steps)
        if point.ray is not None and self._rows.excludes(point.ray, limits):
            return None
        return _Looked(limits, point, max(part.bound, self._rows.least(self._cost, point.prices, limits)))

    def _wholes(self, narrow: Ends, wide: Ends) -> Ends:
        """Narrower limits of whole numbers alone: others would only lead the solver away from where it begins."""
        least, most = (np.where(self._is_whole, a, b) for a, b in zip(narrow, wide, strict=True))
        return least, most

    def _kept(self, look: _Looked) -> _Looked:
        """Keep a point as a solution; what is proved there, once it limits what is looked for."""
        values, value = look.point.values, float(self._cost @ look.point.values)
        slack = _KEPT * (1 + abs(value)) if self._found.values is None else 0.0  # a solver keeps limits within some
        if value <= self._found.value + slack:
            self._found = replace(self._found, values=values, value=value)
        limits = self._narrowing.within(look.limits, self._wanted)
        proved = self._wanted if limits is None else self._rows.least(self._cost, look.point.prices, limits)
        return replace(look, bound=max(look.bound, proved))

    def _widest(self, limits: Ends) -> int | None:
        """The whole number that is least known; None if all are."""
        wide = (limits[1] - limits[0])[self._whole]
        return int(self._whole[wide.argmax()]) if len(wide) and wide.max() > 0.5 else None

    def _column(self, look: _Looked, deadline: Deadline) -> int | None:
        """The number at which a part is divided; None if all are whole."""
        part = look.point.values[self._whole] % 1.0
        open_ = np.minimum(part, 1 - part) > _WHOLE
        columns, part = self._whole[open_], part[open_]
        if not len(columns):
            return None
        if self._plain:
            self._plain -= 1
            return int(columns[(np.minimum(part, 1 - part) + self._is_wide[columns]).argmax()])
        return self._best_column(look, columns, part, deadline)

    def _best_column(self, look: _Looked, columns: Ints, part: Floats, deadline: Deadline) -> int:
        """The number at which dividing helps most, as far as is known or tried."""
        room = self._wanted - look.bound
        room = max(room, _SAME) if np.isfinite(room) else 1.0
        score, tried = _score(self._guessed(columns, part) / room, part), 0
        for n in np.argsort(-score):
            if tried == _TRIED or deadline.over:
                break
            if self._times[:, columns[n]].min() < _KNOWN:
                tried += 1
                rises = self._tried(look, int(columns[n]), room, deadline)
                self._risen[:, columns[n]] += rises / (part[n], 1 - part[n])
                self._times[:, columns[n]] += 1
                score[n] = _score(rises / room, part[n])
                if rises.max() >= room and tried >= _SOME:
                    break
        return int(columns[score.argmax()])

    def _guessed(self, columns: Ints, part: Floats) -> Floats:
        """By how much both parts rise, as far as is known."""
        mean = self._risen.sum(axis=1) / np.maximum(self._times.sum(axis=1), 1)
        each = np.where(self._times > 0, self._risen / np.maximum(self._times, 1), mean[:, None])
        return np.asarray(each[:, columns] * (part, 1 - part))

    def _tried(self, look: _Looked, at: int, room: float, deadline: Deadline) -> Floats:
        """By how much the bounds of both parts rise within some steps, up to where they are closed."""
        parts = (_Branch(0.0, 0, look.bound, each, look.point.start) for each in _halves(look, at))
        looks = (self._look(part, deadline, _STEPS) for part in parts)
        known = np.isfinite(look.bound)
        return np.array(
            [room if each is None else min(each.bound - look.bound, room) if known else 0.0 for each in looks]
        )


def _halves(look: _Looked, at: int) -> tuple[Ends, Ends]:
    """Limits below and above where a number is not whole; in the middle, if that is not known."""
    least, most = look.limits
    middle = (least[at] + min(most[at], 2 * least[at] + 1)) / 2
    below, above = most.copy(), least.copy()
    below[at] = np.floor(look.point.values[at] if look.point.is_best else middle)
    above[at] = below[at] + 1
    return (least, below), (above, most)


def _score(rises: Floats, part: Any) -> Any:
    """How much dividing at numbers helps, by how far parts rise, and by how far from being whole they are."""
    below, above = np.maximum(np.minimum(rises, 1.0), _LITTLE)
    return below * above * (0.5 + np.minimum(part, 1 - part))
