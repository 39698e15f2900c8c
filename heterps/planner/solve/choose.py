"""Choose the batch size, the pool of the shard hosts and the depth, and say over which of them the bound holds.

Batch sizes are tried from the largest to the smallest; one at which no plan can be better than the best so far is left
out, which is a proof for it. Of batch sizes whose best plans are worth the same (within what a search leaves open) the
smallest is taken: it learns more per row.

Depth decides how much memory a worker needs, and a plan decides what depth it needs. The problem counts the batches
that must be in flight at the least, so the best plan there bounds those at every depth. If that plan, with what is in
flight when it is played, does not fit, plans are made for as many batches in flight as it has, and more: once all batch
sizes were looked at, as a smaller one may have a plan that fits and that these cannot beat.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from heterps.hardware import Pool
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.on_the_way import with_in_flight
from heterps.planner.costs.planning_model import build_problem, check_pins, server_pools
from heterps.planner.solve.assemble import Draft, at_depth, has_lanes_for_depth, in_flight
from heterps.planner.solve.bands import Bands, WholeBands
from heterps.planner.solve.checks import check_counted
from heterps.planner.solve.deepening import slowed, without_room
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.large import LargeOutcome, closer_bound, listed, planned
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult
from heterps.planner.solve.sizing import MOST_WORKERS
from heterps.planner.solve.solvers import solver
from heterps.planner.solve.type_bands import bands_over
from heterps.planner.solve.type_program import TypeProgram

if TYPE_CHECKING:
    from heterps.planner.goals import Goal
    from heterps.planner.planner import Request

__all__ = ["Choice", "Choosing", "among_all", "choose"]

_NO_ROOM = "no plan that was found has the memory for the batches that it must keep in flight"
_MORE = 1.05  # times as many batches in flight, at the least, where a plan did not fit
_PATIENCE_SECONDS = 5.0  # beyond the limit while there is neither plan nor proof
_BAND_SECONDS, _MOST_OF = 15.0, 0.8  # for the bands of one batch size, or so much of what is left
_HUNT_SECONDS = 3.0  # for plans in bands where not all cuts are known
_OPEN = 2e-2  # a gap that is worth them
_ALIKE = 1e-3  # relative distance of two values that a search does not tell apart


@dataclass(frozen=True)
class Choice:
    """The plan's draft, the value that no plan beats, over which batch sizes that is so, in words; for which goal.

    ``alike`` are all drafts that were found and are worth the same.
    """

    draft: Draft
    bound: float
    over: str
    goal: Goal
    alike: tuple[Draft, ...] = ()


@dataclass
class _Look:
    """A batch size and a pool of shard hosts at which a plan might be better, and the value that none there beats."""

    costs: Costs
    server: Pool
    bound: float
    cuts: Problem | None = None  # the problem with cuts over which a plan was found, if these are not all
    without_room: Draft | None = None  # what was found, if it does not fit
    loose: bool = False  # whether the bound is one of fractions of units


class Choosing:
    """What was found so far over batch sizes and pools of shard hosts."""

    def __init__(self, request: Request, deadline: Deadline) -> None:
        self._request, self._deadline = request, deadline
        self._patience = Deadline(deadline.left + _PATIENCE_SECONDS)
        self.drafts: list[Draft] = []
        self.looks: list[_Look] = []  # at which a plan might be better
        self.looked: list[int] = []  # batch sizes that the bounds cover
        self.undecided: list[str] = []

    @property
    def best(self) -> Draft | None:
        """The best draft so far."""
        rises = self._request.goal.rises
        return max(self.drafts, key=lambda d: d.found.value if rises else -d.found.value, default=None)

    @property
    def _beat(self) -> float | None:
        """The value that a further plan must reach to be taken: the best, or worth the same with a smaller batch."""
        best = self.best
        if best is None:
            return None
        value = best.found.value or sys.float_info.min  # what costs nothing is worth the same as what costs nothing
        return value * (1 - _ALIKE if self._request.goal.rises else 1 + _ALIKE)

    def look(self, known: Iterable[Draft] = ()) -> None:
        """Plan at every batch size; plans that are ``known`` are to be beaten.

        Raises
        ------
        UndecidedError
            If nothing was found and nothing proved.
        """
        for draft in known:
            self.drafts.append(draft)
            self._keep(_anew(draft, self._request.goal))
        sizes = sorted(self._request.batch_sizes, reverse=True)
        for i, batch_size in enumerate(sizes):
            if not self._is_late:
                self._look_at(batch_size, 1.0 if i == len(sizes) - 1 else 0.5)
            elif not self.drafts:
                self.undecided.append(f"batches of {batch_size:,}: not looked at for lack of time")
        for look in self.looks:
            if look.without_room is not None:
                self._deepen(look, look.without_room)
        if not self.drafts and self.undecided:
            raise UndecidedError("; ".join(dict.fromkeys(self.undecided)))

    @property
    def _is_late(self) -> bool:
        """Whether no more is begun: at the deadline, while there is no plan a little later."""
        return self._deadline.over and (bool(self.drafts) or self._patience.over)

    def _look_at(self, batch_size: int, share: float) -> None:
        """Plan at one batch size, within a share of the time that is left."""
        costs = self._request.costs(batch_size)
        check_pins(costs, self._request.pins)
        for server in server_pools(costs):
            for each in _by_calls(costs):
                self._plan(each, server, Deadline(self._deadline.left * share))
        self.looked.append(batch_size)

    def _problem(self, costs: Costs, server: Pool) -> Problem:
        """The problem with the calls of as many shard hosts as every plan has that does what is asked for."""
        problem, target = build_problem(costs, server, self._request.pins), self._request.goal.target
        if target is None or not problem.shards.carry(target):
            return problem
        return problem.calling(problem.shards.hosts(target))

    def _plan(self, costs: Costs, server: Pool, deadline: Deadline) -> None:
        request, problem = self._request, self._problem(costs, server)
        solve = solver(request.solver).within(deadline)
        try:
            outcome = planned(problem, request.goal, solve, deadline, beat=self._beat, loose=True)
        except UndecidedError as error:
            self.undecided.append(f"batches of {costs.batch_size:,}: {error}")
            bound = request.goal.bound(problem) if error.bound is None else error.bound
            self.looks.append(_Look(costs, server, bound, loose=True))
            return
        if outcome.found is None:
            return
        draft = _drafted(request, costs, server, outcome)
        self._keep(draft)
        cuts, unfit = None if draft.complete else draft.problem, None if draft.fits else draft
        self.looks.append(_Look(costs, server, draft.found.bound, cuts, unfit, outcome.loose))

    def _deepen(self, look: _Look, draft: Draft | None) -> None:
        """Plan for more and more batches in flight, until a plan fits at the depth that it needs itself."""
        each, request = 0.0, self._request
        problem = self._problem(look.costs, look.server)
        while draft is not None and not draft.fits and not self._is_late:
            each = max(each * _MORE, in_flight(draft) / draft.found.rows_per_second)
            try:
                deep = with_in_flight(problem, each)
                solve = solver(request.solver).within(self._deadline)
                outcome = planned(deep, request.goal, solve, self._deadline, beat=self._beat, loose=True)
            except UndecidedError as error:
                self.undecided.append(f"batches of {look.costs.batch_size:,}: {error}")
                return
            draft = None if outcome.found is None else _drafted(request, look.costs, look.server, outcome)
            if draft is not None:
                self._keep(draft)
        if draft is None or not draft.fits:
            self.undecided.append(f"batches of {look.costs.batch_size:,}: {_NO_ROOM}")

    @property
    def choice(self) -> Choice | None:
        """The best draft with its proof; None if it was proved that there is none."""
        best, goal = self.best, self._request.goal
        if best is None:
            return None
        alike = [draft for draft in self.drafts if _alike(draft.found, best.found)]
        chosen = min(alike, key=lambda draft: (draft.costs.batch_size, draft is not best, *_worth(draft.found, goal)))
        ends = max if goal.rises else min
        over = _over(self.looked, self._request.batch_sizes)
        if has_lanes_for_depth(chosen):
            over += f", at most {chosen.problem.deepest:g} of them in flight for each worker that reads"
        bound = ends([*(look.bound for look in self.looks), chosen.found.value])
        if _may_have_more_workers(chosen.problem, goal.dearest(chosen.found.value, bound)):
            over += f", stages of fewer than {MOST_WORKERS:,} workers"
        return Choice(chosen, bound, over, goal, tuple(alike))

    def close_in(self) -> None:
        """Bound plans by bands, wherever that decides what is proved of the best, until it no longer helps."""
        self._tighten()
        before: _Look | None = None
        while (worst := self._decisive) is not before and worst is not None and self._is_open(worst):
            problem = self._problem(worst.costs, worst.server)
            if worst.cuts is not None:
                self._bands(
                    partial(WholeBands, worst.cuts), worst, Deadline(min(_HUNT_SECONDS, self._deadline.left))
                ).closer(worst.bound)
            if self._is_open(worst):
                left = self._deadline.left
                enough = Deadline(min(max(_BAND_SECONDS, _MOST_OF * left), left))
                worst.bound = self._bands(bands_over(problem), worst, enough).closer(worst.bound)
            before = worst

    def _tighten(self) -> None:
        """Bound plans with whole units, wherever fractions decide what is proved of the best."""
        while (worst := self._decisive) is not None and worst.loose and not self._deadline.over:
            program = TypeProgram(self._problem(worst.costs, worst.server))
            worst.bound = closer_bound(program, self._request.goal, self._value(), worst.bound, self._deadline)
            worst.loose = False

    def _bands(self, kind: Callable[..., Bands[Any]], look: _Look, deadline: Deadline) -> Bands[Any]:
        solve = solver(self._request.solver).within(deadline)
        return kind(self._request.goal, solve, self._value, partial(self._try, look), deadline)

    def _is_open(self, look: _Look) -> bool:
        """Whether much of the certificate is open, and time to do something about it."""
        proves = self._request.solver == "exact"
        return proves and abs(self._value() - look.bound) > _OPEN * self._value() and not self._deadline.over

    @property
    def _decisive(self) -> _Look | None:
        """The look whose bound is that of all; None if there is none."""
        return (max if self._request.goal.rises else min)(self.looks, key=lambda look: look.bound, default=None)

    def _value(self) -> float:
        assert self.best is not None
        return self.best.found.value

    def _try(self, look: _Look, outcome: LargeOutcome) -> None:
        """Keep what was found in a band if it is better than the best, and fits when it is played."""
        best = self.best
        if outcome.found is None or best is None or not self._request.goal.better(outcome.found, best.found):
            return
        self._keep(_drafted(self._request, look.costs, look.server, outcome))

    def _keep(self, draft: Draft) -> None:
        """Keep a draft; at fewer rows a second if it does not fit at its own."""
        fitting = draft if draft.fits else slowed(draft, self._request.goal)
        if fitting is not None:
            check_counted(fitting)
            self.drafts.append(fitting)


def choose(request: Request, deadline: Deadline, known: Iterable[Draft] = ()) -> Choice | None:
    """Return the best draft with its proof, plans that are ``known`` too; None if it was proved that there is none.

    Raises
    ------
    UndecidedError
        If nothing was found and nothing proved.
    """
    choosing = Choosing(request, deadline)
    choosing.look(known)
    choosing.close_in()
    return choosing.choice


def _by_calls(costs: Costs) -> tuple[Costs, ...]:
    """Costs of all plans, and of those of one stage, if these call shard hosts less often."""
    return (costs, replace(costs, fused=True)) if costs.fetches else (costs,)


def among_all(request: Request, draft: Draft) -> Draft:
    """A draft over cuts as plans of several stages have them, where it is one of those that have one."""
    if draft.costs.fused == request.fused:
        return draft
    costs, found = request.costs(draft.costs.batch_size), draft.found
    problem = listed(build_problem(costs, draft.server, request.pins))[0]
    (only,) = found.placement.segments
    placement = replace(found.placement, segments=(replace(only, stop=problem.states - 1),))
    return replace(draft, costs=costs, problem=problem, found=replace(found, placement=placement))


def _anew(draft: Draft, goal: Goal) -> Draft:
    """A draft for a goal that lets it run faster, at the depth that it needs then."""
    found = goal.anew(draft.found, draft.problem)
    return draft if found is draft.found else _deepened(replace(draft, found=found))


def _may_have_more_workers(problem: Problem, most: float) -> bool:
    """Whether a plan for so much an hour may have a stage of more workers than are looked at, things being scarce."""
    each = problem.product_price[problem.product] / problem.sold_in
    enough = (problem.cap >= MOST_WORKERS) & (each * MOST_WORKERS <= most)
    return bool(enough.any()) and (problem.is_coupled or bool(problem.mixes.size))


def _alike(a: SearchResult, b: SearchResult) -> bool:
    return abs(a.value - b.value) <= _ALIKE * b.value


def _worth(found: SearchResult, goal: Goal) -> tuple[float, float]:
    """The better, the less; of what costs nothing, the faster."""
    return -found.value if goal.rises else found.value, -found.rows_per_second


def _over(looked: list[int], wanted: tuple[int, ...]) -> str:
    """For which batch sizes the bound holds."""
    missing = sorted(set(wanted) - set(looked))
    seen = f"batches of {min(looked):,}" + (f" to {max(looked):,} rows" if len(looked) > 1 else " rows")
    left = f"; not looked at for lack of time: {', '.join(f'{b:,}' for b in missing)}" if missing else ""
    return seen + left


def _drafted(request: Request, costs: Costs, server: Pool, outcome: LargeOutcome) -> Draft:
    """What was found as a draft, at the depth that it needs, which may not fit."""
    assert outcome.found is not None
    return _deepened(Draft(costs, outcome.problem, server, outcome.found, request.pins, outcome.complete))


def _deepened(draft: Draft) -> Draft:
    """A draft at the depth that it needs, which may not fit."""
    draft = at_depth(draft)
    check_counted(draft)
    return replace(draft, fits=not without_room(draft))
