"""Bands of plans over any cuts: divided by what is bought, and by how many batches are in flight for each row a second.

Every plan buys a number of each product and has a number of batches in flight, so the boxes together hold all plans. Of
plans that buy at least A and at most B, one that is better than the best known price per row, c, does more than
``price(A)/c`` rows a second; and if none costs less than b per row, none does more than ``price(B)/b``. Where one
purchase is left, the rows a second are nearly one number, and units are whole and known.

Most boxes are out since no plan of the problem's core lies in them (:mod:`heterps.planner.solve.path_mixtures`). Those
that are left, or all where there is no core, are bounded by the program over types, and divided by batches in flight
until stages as they are (:mod:`heterps.planner.solve.anchor_stage`, :mod:`heterps.planner.solve.lane_stage`) have no
room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from heterps.planner.goals import Goal
from heterps.planner.solve.bands import Bands, WholeBands
from heterps.planner.solve.core_problem import core_of
from heterps.planner.solve.dag import over_downsets
from heterps.planner.solve.effort import Deadline
from heterps.planner.solve.large import FEW_STATES
from heterps.planner.solve.path_mixtures import Limits, Mixtures
from heterps.planner.solve.placement import TOLERANCE, Floats
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.type_program import TypeProgram

__all__ = ["TypeBands", "bands_over"]

_FEW = 5_000  # purchases beyond which batches in flight are divided first where these are further apart
_NARROW = 1.02  # ends of batches in flight, of each other, at which they are not divided
_BELOW = 1 - 1e-7  # "just below": so that a plan is not in both parts of a band that is divided at it
_WIDE = 1.5  # ends of a box, of each other, beyond which the stage that reads is not looked at as it is
_SOON = 1.5  # seconds for stages as they are in a box that is wider
_PARTS = 40  # of the plans that make one purchase, into which these are divided
_NEAR = 1.6e-2  # relative distance from the best plan within which nothing is tried to be proved: that takes time


@dataclass(frozen=True)
class Box:
    """Batches in flight for each row a second, and numbers of each product, that plans lie between."""

    low: float
    high: float
    least: tuple[float, ...]
    most: tuple[float, ...]

    @property
    def wide(self) -> float:
        """How many times the fewest batches the most are; 1 where nothing is known of them."""
        return self.high / self.low if self.low > 0 else 1.0


class TypeBands(Bands[Box]):
    """Plans over any cuts, divided by what they buy, and by how many batches are in flight for each row a second."""

    def _first(self) -> tuple[Box, ...]:
        """All plans that may be better than the best."""
        price, most = self._problem.product_price, self._problem.product_cap
        dearest = self._goal.dearest(self._best(), self._floor) * (1 + TOLERANCE)
        affordable = np.divide(dearest, price, out=np.full_like(price, np.inf), where=price > 0)
        most = np.minimum(most, np.floor(affordable))
        return (Box(self._problem.least_way, np.inf, (0.0,) * len(most), tuple(map(float, most))),)

    def _look(self, known: float, box: Box) -> tuple[float, tuple[Box, ...]]:
        """A bound from the core, which has purchases divided, or from the program over types."""
        goal = self._goal.of_price(*self._prices(box), self._best(), known)
        if goal is None:
            return self._best(), ()
        units = self._units_of_core(box, known)
        if units is None:
            return self._near, ()
        if self._mixtures is not None and self._apart(box):
            return known, self._parts(box, self._problem.products(units.astype(np.int64)).astype(float))
        return self._by_program(box, goal, known)

    def _by_program(self, box: Box, goal: Goal, known: float) -> tuple[float, tuple[Box, ...]]:
        """A bound from the program over types, if need be with stages as they are."""
        slow, fast = goal.rates(self._best(), known)
        program = self._program(box)
        if not program.applies:
            return known, ()
        bound = self._closer(program, goal, known, self._deadline)
        staged = program.is_quick or (program.can_be_anchored and self._count(box) == 1)
        if not self._is_close(bound) and np.isfinite(box.high) and staged:
            bound = self._with_stages(box, goal, bound, max(box.wide, fast / slow))
        listed = self._count(box) <= _FEW and not program.is_quick
        by_flight = box.wide > (np.inf if listed else fast / slow)
        return bound, self._by_flight(box) if by_flight else self._parts(box, program.seen)

    @property
    def _near(self) -> float:
        """A value that is close enough to that of the best plan: that none is better is all that is tried to prove."""
        return self._best() * (1 + _NEAR if self._goal.rises else 1 - _NEAR)

    @cached_property
    def _mixtures(self) -> Mixtures | None:
        """The plans of the problem's core, if it has one."""
        core = core_of(self._problem)
        return None if core is None else Mixtures(core)

    def _units_of_core(self, box: Box, known: float) -> Floats | None:
        """Units with which a plan of a box may be better than what is close enough; None if no plan is."""
        near, p = self._near, self._problem
        goal = self._goal.of_price(*self._prices(box), near, known)
        if goal is None or self._mixtures is None:
            return None if goal is None else np.zeros(p.types)
        x = goal.rates(near, known)[0]
        bought = np.minimum(np.array(box.most)[p.product] * p.sold_in, p.cap)
        units = np.asarray(bought - p.hosts_by_type(p.shards.hosts(x)), float)
        core = self._mixtures.core
        core = replace(core, bare=replace(core.bare, way_from=box.low))
        return self._mixtures.units_within(
            core, x, Limits(units, box.high), self._deadline, 1 if self._apart(box) else _PARTS
        )

    def _program(self, box: Box, **stages: bool) -> TypeProgram:
        problem = replace(self._problem, way_from=box.low, way_to=box.high)
        return TypeProgram(problem, bought=(np.array(box.least), np.array(box.most)), **stages)

    def _prices(self, box: Box) -> tuple[float, float]:
        """What plans of a box cost at least, and at most: shard hosts that are no units of a type come on top."""
        price, shards = self._problem.product_price, self._problem.shards
        apart = shards.type < 0 and shards.price > 0
        paid = price > 0
        most = np.inf if apart else float(price[paid] @ np.array(box.most)[paid])
        return float(price @ np.array(box.least)), most

    def _with_stages(self, box: Box, goal: Goal, bound: float, wide: float) -> float:
        """A closer bound with stages as they are; that which reads takes a second or more."""
        soon = self._deadline if wide <= _WIDE else Deadline(min(_SOON, self._deadline.left))
        bound = self._closer(self._program(box, anchored=True), goal, bound, soon)
        if self._is_close(bound) or wide > _WIDE:
            return bound
        return self._closer(self._program(box, anchored=True, lanes=True), goal, bound, soon)

    def _closer(self, program: TypeProgram, goal: Goal, bound: float, deadline: Deadline) -> float:
        """A bound that is close enough, or what can be said at once."""
        program.prices = 1
        return goal.closer(program, self._near, bound, deadline)

    def _parts(self, box: Box, seen: Floats | None) -> tuple[Box, ...]:
        """Parts of a box: of what is bought, as long as that is not one purchase."""
        return tuple(self._around(box, seen)) if self._apart(box) else self._by_flight(box)

    def _by_flight(self, box: Box) -> tuple[Box, ...]:
        if box.wide < _NARROW**2:
            return ()
        at = (float(np.sqrt(box.low * box.high)) if np.isfinite(box.high) else 2 * box.low) * _BELOW
        return replace(box, high=at), replace(box, low=at)

    def _count(self, box: Box) -> float:
        """Number of purchases that plans of a box may make."""
        return float(np.prod([1.0, *(most - least + 1 for least, most, _ in self._apart(box))]))

    def _apart(self, box: Box) -> list[tuple[float, float, int]]:
        """Fewest, most and number of the products of which plans of a box may have more, or less, for their price."""
        ends = zip(box.least, box.most, self._problem.product_price, strict=True)
        return [(a, b, p) for p, (a, b, price) in enumerate(ends) if price > 0 and a < b < np.inf]

    def _around(self, box: Box, seen: Floats | None) -> Iterator[Box]:
        """Halve a box by the product that makes most of its price; again, as long as what was seen is in a part.

        What was seen there is seen in each of these: to bound them would take as long and say no more.
        """
        while apart := self._apart(box):
            least, most, p = max(apart, key=lambda each: (each[1] - each[0]) * self._problem.product_price[each[2]])
            at = float(np.floor((least + most) / 2))
            fewer = replace(box, most=(*box.most[:p], at, *box.most[p + 1 :]))
            more = replace(box, least=(*box.least[:p], at + 1, *box.least[p + 1 :]))
            if seen is None:
                yield from (fewer, more)
                return
            box, other = (fewer, more) if seen[p] <= at else (more, fewer)
            yield other
        yield box


def bands_over(problem: Problem) -> Callable[..., Bands[Any]]:
    """The kind of bands that bound all plans of a problem: over all its cuts where these are few enough."""
    every, complete = over_downsets(problem, FEW_STATES)
    listed = complete and every.states <= FEW_STATES
    return partial(WholeBands, every) if listed else partial(TypeBands, problem)
