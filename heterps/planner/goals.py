"""What is wanted of a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from heterps.errors import PlanError
from heterps.planner.costs.planning_model import paid_text
from heterps.planner.solve.bounds import least_price, most_rows
from heterps.planner.solve.chain import relaxed_price
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult, Solve, best_at, best_price_per_row, best_throughput
from heterps.planner.solve.small import is_small
from heterps.planner.solve.type_program import TypeProgram, least_per_row, most_within

__all__ = ["FixedRate", "Goal", "MaxThroughput", "MinCost"]

_QUICK_S = 900.0  # seconds: no job is hurried to take less, as machines must be there first
_MANY_STATES, _SKIPPED = 1_000, 5e-3  # cuts beyond which plans are not told apart that are worth the same within this
MOST_ROWS = 1e18  # a second: more than all machines there are; units that it would take are still whole numbers


@dataclass(frozen=True)
class Goal:
    """Base of goals: ``search`` finds the best placement, ``text`` says what was asked for."""

    @property
    def objective(self) -> str:
        """What the certificate's value is."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The goal in words."""
        return self.said(True)

    def said(self, priced: bool) -> str:
        """The goal in words, where something has a price, or where units are counted instead."""
        raise NotImplementedError

    @property
    def target(self) -> float | None:
        """Rows per second that must be reached, if any."""
        return None

    def search(
        self, problem: Problem, solve: Solve, deadline: Deadline = NEVER, beat: float | None = None
    ) -> SearchResult | None:
        """Find the best placement, None if there is none, or none that is better than ``beat``."""
        raise NotImplementedError

    def bound(self, problem: Problem) -> float:
        """A value that no plan beats, whatever its cuts."""
        raise NotImplementedError

    def floor(self, problem: Problem) -> float:
        """A value that no plan over the problem's cuts beats, from fractions of units."""
        return self.bound(problem)

    def closer(self, program: TypeProgram, value: float, bound: float, deadline: Deadline) -> float:
        """A value that no plan beats, whatever its cuts: with whole units, nearer to that of a plan than ``bound``."""
        raise NotImplementedError

    def rules_out(self, program: TypeProgram, value: float, deadline: Deadline) -> bool:
        """Whether it is proved that no plan, whatever its cuts, is as good as a value."""
        raise NotImplementedError

    def can_beat(self, problem: Problem, solve: Solve, value: float) -> bool:
        """Whether a plan over the problem's cuts could be better than a value; False is a proof that none is."""
        raise NotImplementedError

    def rates(self, value: float, bound: float) -> tuple[float, float]:
        """Rows per second between which all plans lie that are better than a value, given one that none beats."""
        raise NotImplementedError

    def dearest(self, value: float, bound: float) -> float:
        """A price per hour that no plan exceeds which is better than a value, given one that none beats."""
        raise NotImplementedError

    def of_price(self, least: float, most: float, value: float, bound: float) -> Goal | None:
        """The same of plans that cost from least to most per hour, and are better than a value; None: there is none.

        ``bound`` is a value that none of them beats.
        """
        return self if least <= self.dearest(value, bound) * (1 + 1e-9) else None

    def slower(self, found: SearchResult, rows_per_second: float) -> SearchResult | None:
        """What was found, at fewer rows a second than it sustains; None if these are too few."""
        return None

    def anew(self, found: SearchResult, problem: Problem) -> SearchResult:
        """What was found for a goal that is narrower."""
        return found

    @property
    def rises(self) -> bool:
        """Whether more is better."""
        return False

    def better(self, a: SearchResult, b: SearchResult) -> bool:
        """Whether a beats b."""
        return a.value > b.value if self.rises else a.value < b.value


@dataclass(frozen=True)
class MinCost(Goal):
    """Least price per row with at least so many rows per second: what to rent for a job.

    The cheapest plan may be faster than asked for, up to ``up_to`` rows per second, and cost up to ``price_per_hour``.
    By default plans are compared that cost at most twice as much an hour as one that does what was asked for, however
    fast they are. One that costs more, of up to ``hurry_to`` rows per second, is taken where it saves a twentieth or
    more: a job that may take a day need not.
    """

    rows_per_second: float
    up_to: float | None = None
    price_per_hour: float = math.inf
    hurry_to: float | None = None

    def __post_init__(self) -> None:
        _positive(self.rows_per_second)
        _affordable(self.price_per_hour)

    @classmethod
    def of_job(cls, rows: float, seconds: float) -> MinCost:
        """Least price for so many rows in so many seconds at most."""
        return cls(rows / seconds, hurry_to=rows / _QUICK_S)

    @property
    def objective(self) -> str:
        """What the certificate's value is."""
        return "price per million rows"

    def said(self, priced: bool) -> str:
        """The goal in words."""
        limit = f", of plans for at most {paid_text(self.price_per_hour, priced)}"
        least = "least price" if priced else "fewest units"
        text = f"{least} per row with at least {_rate(self.rows_per_second)} rows/s{self._job}"
        return text if math.isinf(self.price_per_hour) else text + limit

    @property
    def _job(self) -> str:
        """All rows and their time, where these were asked for."""
        if self.hurry_to is None:
            return ""
        rows = self.hurry_to * _QUICK_S
        return f" ({rows:,.0f} rows within {rows / self.rows_per_second / 3600:,.3g} h)"

    @property
    def target(self) -> float | None:
        """Rows per second that must be reached."""
        return self.rows_per_second

    def fastest(self, floor: float) -> float:
        """Rows per second up to which plans are looked for, given a price per row that none beats."""
        if self.up_to is not None:
            return max(self.up_to, self.rows_per_second)
        if math.isfinite(self.price_per_hour) and floor > 0:
            return max(self.price_per_hour / floor, self.rows_per_second)
        return 2 * self.rows_per_second

    def search(
        self, problem: Problem, solve: Solve, deadline: Deadline = NEVER, beat: float | None = None
    ) -> SearchResult | None:
        """Find the best placement, None if there is none, or none that is better than ``beat``."""
        skip = 0.0 if problem.states <= _MANY_STATES else _SKIPPED
        return best_price_per_row(
            problem,
            self.rows_per_second,
            solve,
            at_most=self.fastest(self.floor(problem)),
            budget=self.price_per_hour,
            skip=skip,
            beat=math.inf if beat is None else beat,
            deadline=deadline,
        )

    def can_beat(self, problem: Problem, solve: Solve, value: float) -> bool:
        """Whether fractions of units would cost less per row."""
        return self.floor(problem) < value

    def floor(self, problem: Problem) -> float:
        """The price per row with fractions of units: it never falls with the throughput."""
        return relaxed_price(problem, self.rows_per_second) / self.rows_per_second

    def bound(self, problem: Problem) -> float:
        """A price per row that no plan beats: without caps and whole hosts it is the same at every throughput."""
        return least_price(problem, self.rows_per_second, whole_hosts=False) / self.rows_per_second

    def closer(self, program: TypeProgram, value: float, bound: float, deadline: Deadline) -> float:
        """The least price per row over all throughputs."""
        slow, fast, budget = self.rows_per_second, self.fastest(bound), self.price_per_hour
        return least_per_row(program, slow, fast, value, bound, deadline, budget)

    def rates(self, value: float, bound: float) -> tuple[float, float]:
        """As many as were asked for, and up to which plans are looked for."""
        return self.rows_per_second, self.fastest(bound)

    def dearest(self, value: float, bound: float) -> float:
        """What the fastest may cost."""
        return min(self.price_per_hour, value * self.fastest(bound))

    def of_price(self, least: float, most: float, value: float, bound: float) -> Goal | None:
        """The least price per row over the throughputs that such plans have."""
        slow, fast = self.rates(value, bound)
        slow, fast = max(slow, least / value), min(fast, most / bound * (1 + 1e-9) if bound > 0 else fast)
        some = slow <= fast and super().of_price(least, most, value, bound) is not None
        return replace(self, rows_per_second=slow, up_to=fast) if some else None

    def slower(self, found: SearchResult, rows_per_second: float) -> SearchResult | None:
        """The same price an hour for fewer rows."""
        if rows_per_second < self.rows_per_second:
            return None
        value = found.placement.price / rows_per_second
        return replace(found, rows_per_second=rows_per_second, value=value)

    def anew(self, found: SearchResult, problem: Problem) -> SearchResult:
        """The same placement as fast as it can be."""
        fastest = min(problem.sustained(found.placement), self.fastest(self.floor(problem)))
        if fastest <= found.rows_per_second:
            return found
        return replace(found, rows_per_second=fastest, value=found.placement.price / fastest)

    def rules_out(self, program: TypeProgram, value: float, deadline: Deadline) -> bool:
        """Whether rows cost more at all throughputs."""
        slow, fast = self.rows_per_second, self.fastest(self.bound(program.problem))
        per_row, budget = value * (1 + 1e-6), self.price_per_hour
        return program.least_beyond(per_row, slow, fast, deadline, 0.0, budget, close=np.inf)[0] > 0


@dataclass(frozen=True)
class FixedRate(Goal):
    """Least price per hour for rows that arrive at a fixed rate: streaming."""

    rows_per_second: float

    def __post_init__(self) -> None:
        _positive(self.rows_per_second)

    @property
    def objective(self) -> str:
        """What the certificate's value is."""
        return "price per hour"

    def said(self, priced: bool) -> str:
        """The goal in words."""
        least = "least price per hour" if priced else "fewest units"
        return f"{least} for {_rate(self.rows_per_second)} rows/s as they arrive"

    @property
    def target(self) -> float | None:
        """Rows per second that must be reached."""
        return self.rows_per_second

    def search(
        self, problem: Problem, solve: Solve, deadline: Deadline = NEVER, beat: float | None = None
    ) -> SearchResult | None:
        """Find the best placement, None if there is none, or none that is better than ``beat``."""
        return best_at(problem, self.rows_per_second, solve, beat=math.inf if beat is None else beat)

    def can_beat(self, problem: Problem, solve: Solve, value: float) -> bool:
        """Whether fractions of units would cost less."""
        return self.floor(problem) < value

    def floor(self, problem: Problem) -> float:
        """The price per hour with fractions of units."""
        return relaxed_price(problem, self.rows_per_second)

    def bound(self, problem: Problem) -> float:
        """A price per hour that no plan beats."""
        return least_price(problem, self.rows_per_second)

    def closer(self, program: TypeProgram, value: float, bound: float, deadline: Deadline) -> float:
        """The price per hour of whole units."""
        return max(bound, program.least_price(self.rows_per_second, deadline))

    def rates(self, value: float, bound: float) -> tuple[float, float]:
        """Those that arrive."""
        return self.rows_per_second, self.rows_per_second

    def dearest(self, value: float, bound: float) -> float:
        """The value."""
        return value

    def rules_out(self, program: TypeProgram, value: float, deadline: Deadline) -> bool:
        """Whether whole units cost more."""
        return program.exceeds(value, self.rows_per_second, deadline)


@dataclass(frozen=True)
class MaxThroughput(Goal):
    """Most rows per second with what is there, or for so much per hour."""

    price_per_hour: float = math.inf

    def __post_init__(self) -> None:
        _affordable(self.price_per_hour)

    @property
    def objective(self) -> str:
        """What the certificate's value is."""
        return "rows per second"

    def said(self, priced: bool) -> str:
        """The goal in words."""
        limit = f" for at most {paid_text(self.price_per_hour, priced)}"
        return "most rows/s with the given inventory" + ("" if math.isinf(self.price_per_hour) else limit)

    def search(
        self, problem: Problem, solve: Solve, deadline: Deadline = NEVER, beat: float | None = None
    ) -> SearchResult | None:
        """Find the best placement, None if there is none, or none that is better than ``beat``."""
        paid = (problem.product_price[problem.product] > 0) & math.isfinite(self.price_per_hour)
        if not (paid | np.isfinite(problem.cap)).all():
            raise PlanError(
                "the most throughput of pools without a cap is unlimited: give every pool a cap in the hardware, or a "
                "price and a budget (MaxThroughput(price_per_hour=...), --budget), or ask for the least cost "
                "(--rows-per-second)"
            )
        tried_soon = math.isinf(self.price_per_hour) or is_small(problem)
        most = math.inf if tried_soon else self._most(problem) * (1 + 1e-6)
        if most <= (beat or 0.0):
            return None
        found = best_throughput(
            problem, solve, budget=self.price_per_hour, beat=beat or 0.0, most=most, deadline=deadline
        )
        if found is None or not found.gap:
            return found
        return replace(found, bound=min(found.bound, max(found.value, self._most(problem))))

    def _most(self, problem: Problem) -> float:
        """Rows per second that no plan beats, if that is known."""
        try:
            return self.bound(problem)
        except UndecidedError:
            return math.inf

    def can_beat(self, problem: Problem, solve: Solve, value: float) -> bool:
        """Whether anything is feasible just above."""
        try:
            better = solve(problem, value * (1 + 1e-6))
        except UndecidedError:
            return True
        return better is not None and better.bound <= self.price_per_hour * (1 + 1e-9)

    def bound(self, problem: Problem) -> float:
        """Rows per second that no plan beats."""
        return most_rows(problem, self.price_per_hour)

    def closer(self, program: TypeProgram, value: float, bound: float, deadline: Deadline) -> float:
        """The most rows per second with whole units."""
        return most_within(program, value, bound, self.price_per_hour, deadline)

    def rates(self, value: float, bound: float) -> tuple[float, float]:
        """From the value to the bound."""
        return value, max(value, bound)

    def dearest(self, value: float, bound: float) -> float:
        """What may be paid."""
        return self.price_per_hour

    def slower(self, found: SearchResult, rows_per_second: float) -> SearchResult | None:
        """So many rows."""
        return replace(found, rows_per_second=rows_per_second, value=rows_per_second)

    def rules_out(self, program: TypeProgram, value: float, deadline: Deadline) -> bool:
        """Whether so many rows per second cost more, or more than there is."""
        return program.exceeds(self.price_per_hour, value, deadline)

    @property
    def rises(self) -> bool:
        """More rows per second are better."""
        return True


def _rate(rows_per_second: float) -> str:
    """Rows a second, in as many digits as few of them need."""
    return f"{rows_per_second:,.0f}" if rows_per_second >= 100 else f"{rows_per_second:.3g}"


def _positive(rows_per_second: float) -> None:
    if not 0 < rows_per_second <= MOST_ROWS:
        raise PlanError(f"rows_per_second is {rows_per_second}, must be a positive number of at most {MOST_ROWS:g}")


def _affordable(price_per_hour: float) -> None:
    if not price_per_hour > 0:
        raise PlanError(f"price_per_hour is {price_per_hour}, must be a positive number")
