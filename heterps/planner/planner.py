"""``plan``: the one function that turns a graph and hardware into a Plan."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from heterps.data import Dataset
from heterps.errors import PlanError
from heterps.graph import Graph
from heterps.hardware import Hardware
from heterps.planner.costs.cache_forecast import cache_texts
from heterps.planner.costs.forecast import NO_PROOF, Certificate, Forecast, TableForecast
from heterps.planner.costs.gpu_cache import gpu_cache_texts
from heterps.planner.costs.gpu_tier import gpu_texts, with_gpu_tables
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.planning_model import is_priced, paid_text, placed_tables
from heterps.planner.costs.profile import Profile
from heterps.planner.costs.row_way_costs import choose_row_ways, row_way_costs, row_way_texts
from heterps.planner.costs.sample import Sample, sample_batches, sample_dataset
from heterps.planner.costs.table_memory import disk_texts, forecast_tables, new_rows
from heterps.planner.costs.way_costs import choose_ways, dense_way_costs, way_texts
from heterps.planner.goals import FixedRate, Goal, MaxThroughput, MinCost
from heterps.planner.plan import Plan
from heterps.planner.solve.assemble import Draft
from heterps.planner.solve.choose import Choice
from heterps.planner.solve.deepening import finished
from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.played_ways import fastest, played_rate
from heterps.planner.solve.remedies import infeasible
from heterps.planner.solve.rivals import rivals
from heterps.planner.solve.solvers import solver
from heterps.planner.solve.widening import chosen
from heterps.planner.ways import CACHE, GEO, resolve_ways
from heterps.protocol.words.modes import Async, Cached, Mode
from heterps.stages import Layers, layers_of
from heterps.stages.contract import UNIQUE_FRACTION

__all__ = ["BATCH_SIZES", "SECONDS", "Request", "plan", "solve"]

BATCH_SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
SECONDS = 30.0
_TINY = make_problem([[1.0]], cap=4)
_OPEN = 1e-6  # relative distance of two bounds that are not the same
_TRIES = 3  # of plans with more head-room, where what was asked for is not reached when they are played
_SLOWER = "dense parameters go by their tables: all-reduced, the plan is slower when it is played"
_LARGE_BATCH = 8192  # rows; above, a plan says that this changes what is learned


@dataclass(frozen=True)
class Request:
    """Everything that a plan depends on, as a value."""

    graph: Graph
    hardware: Hardware
    goal: Goal
    batch_sizes: tuple[int, ...]
    profile: Profile = field(default_factory=lambda: Profile({}))
    pins: Mapping[str, str] = field(default_factory=dict)
    sample: Sample | None = None
    rows: float | None = None
    solver: str = "exact"
    seconds: float = SECONDS
    head_room: float = 0.0
    parameters: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    stale: int | None = None
    fused: bool = False  # whether plans must have one stage
    depth: int | None = None  # batches in flight of every lane, where somebody has said how many
    even: bool = False  # whether all workers that read have as many batches

    @property
    def unique_fraction(self) -> float:
        """Distinct ids per id of a batch: sampled, measured or assumed."""
        if self.sample is not None:
            return self.sample.unique_fraction
        return self.profile.unique_fraction or UNIQUE_FRACTION

    @property
    def goal_text(self) -> str:
        """The goal in words: of a price, or of units where nothing has one."""
        return self.goal.said(is_priced(self.hardware))

    def costs(self, batch_size: int) -> Costs:
        """Costs at one batch size."""
        layers = _layers(self.graph, batch_size, self.unique_fraction)
        new = new_rows(self._tables, self.sample, self.rows)
        given = self.hardware, self.profile, self._tables, self.head_room, self.replicas
        return Costs(self.graph, layers, *given, new, self.fused, self.depth, self.even)

    @cached_property
    def _tables(self) -> tuple[TableForecast, ...]:
        """The tables, which are the same at all batch sizes."""
        return forecast_tables(self.graph, self.sample, self.rows)

    def best(self) -> Choice | None:
        """The best draft and what is proved of it; None if it was proved that there is no plan.

        Raises
        ------
        UndecidedError
            If no plan was found within the time limit, and it was not proved that there is none.
        """
        return chosen(self, Deadline(self.seconds))


@lru_cache(maxsize=16)  # all batch sizes, once more for other hardware and goals: remedies, limits, rivals
def _layers(graph: Graph, batch_size: int, unique_fraction: float) -> Layers:
    return layers_of(graph, batch_size=batch_size, unique_fraction=unique_fraction)


def plan(
    graph: Graph,
    hardware: Hardware | None = None,
    *,
    batch_size: int | None = None,
    goal: Goal | None = None,
    profile: Profile | None = None,
    pins: Mapping[str, str] | None = None,
    sample: Sample | Dataset | Iterable[Mapping[str, Any]] | None = None,
    rows: float | None = None,
    mode: Mode | None = None,
    solver: str = "exact",
    seconds: float = SECONDS,
    head_room: float = 0.0,
    parameters: Mapping[str, str] | None = None,
    replicas: int = 1,
    stale: int | None = None,
) -> Plan:
    """Decide what runs where.

    Parameters
    ----------
    graph
        The model.
    hardware
        The pools there are, or could be rented; None measures this machine.
    batch_size
        Rows per batch; None lets the planner choose.
    goal
        :class:`MinCost`, :class:`FixedRate` or :class:`MaxThroughput`; None is the most throughput where every pool has
        a cap.
    profile
        Measured rates (``heterps profile``); what it does not know follows from the devices' figures.
    pins
        Places by op or Layer name (patterns allowed): a pool, ``"cpu"`` or ``"gpu"``.
    sample
        A look at the data: a dataset, batches, or what :func:`sample_batches` made of them.
    rows
        Rows of data that will be trained on, for the size of the tables.
    mode
        Consistency mode; None is Async.
    solver
        Name of a registered solver.
    seconds
        Time limit of the whole search; what is not proved by then stands in the certificate as a gap.
    head_room
        Part of everything that is to stay free (0.2: stages, shard hosts, Hosts and links are at most 80 % busy).
    replicas
        Copies of each shard host, 1 or 2: with 2 one that is lost costs nothing, for twice the memory, and the work and
        bytes of gradients once more.
    parameters
        How parameters travel, by name or pattern: ``{"fc*": "allreduce"}``; what is not named goes by its table. None
        lets the planner choose by what each way costs a step, for dense parameters, and for tables if ``stale``.
    stale
        Let tables travel by ``geo:K`` with this K where that is cheaper: their rows are then up to two ranges of K
        batches behind what others have learned. None: tables stay as exact as the mode is.

    Raises
    ------
    PlanError
        If no plan meets the goal; the message names what stands in the way and what would help.

    Examples
    --------
    >>> from heterps.models import wide_deep
    >>> made = plan(wide_deep(), Hardware.local(), batch_size=4096)
    >>> [stage.name for stage in made.stages]
    ['all']
    """
    request = Request(
        graph,
        hardware or Hardware.local(),
        goal or MaxThroughput(),
        BATCH_SIZES if batch_size is None else (batch_size,),
        profile or Profile({}),
        dict(pins or {}),
        _sampled(graph, sample),
        rows,
        solver,
        seconds,
        head_room,
        dict(parameters or {}),
        replicas,
        stale,
    )
    return solve(request, mode)


def solve(request: Request, mode: Mode | None = None) -> Plan:
    """Make the plan of a request, with its certificate, rivals and assumptions.

    One that is played below what was asked for, as lanes and batches wait, is made again with so much more head-room:
    what waits is not at work.
    """
    deadline = Deadline(request.seconds)
    made = _solved(request, mode)
    for _ in range(_TRIES):
        if made.forecast is None or not made.forecast.misses or deadline.over:
            break
        request = replace(request, head_room=_more_room(request, made.forecast), seconds=deadline.left)
        try:
            roomier = _solved(request, mode)
        except PlanError:  # nothing has so much room
            break
        made = max(made, roomier, key=played_rate)
    return made


def _more_room(request: Request, forecast: Forecast) -> float:
    """The head-room with which a plan may be played as fast as was asked for."""
    assert forecast.played is not None
    return 1 - (1 - request.head_room) * forecast.played / forecast.asked


def _solved(request: Request, mode: Mode | None) -> Plan:
    if request.stale is not None and request.stale < 1:
        raise PlanError(f"stale={request.stale}: it is a number of batches, at least 1")
    ways_of = resolve_ways(request.graph, request.parameters)
    given, mode = mode, Cached() if mode is None and any(way.kind == CACHE for way in ways_of.values()) else mode
    own_rows = (mode is not None and mode.adds) or any(way.kind == GEO for way in ways_of.values())
    request = replace(request, fused=request.fused or own_rows, **_asks(mode))
    solver(request.solver).solve(_TINY, 1.0)  # loads the compiled loops: not what a plan takes
    start = time.perf_counter()
    try:
        choice = request.best()
    except UndecidedError as error:
        raise PlanError(
            f"no plan was found within {request.seconds:g} s, and it is not proved that there is none: {error}. Give "
            "more time (seconds=, --seconds), fewer batch sizes (batch_size=, --batch-size), or pin layers"
        ) from error
    if choice is None:
        raise PlanError(infeasible(request))
    request = replace(request, goal=choice.goal)
    seconds = time.perf_counter() - start
    rate = request.goal.rows_per_second if isinstance(request.goal, FixedRate) else None
    draft, made = finished(choice.draft, rate, mode)
    made = with_gpu_tables(made)
    on_gpu = (*gpu_texts(made, draft.costs), *gpu_cache_texts(made, ways_of))
    ways = dense_way_costs(draft.costs, made) if draft.costs.dense_size else ()
    k = request.stale or next((way.number for way in ways_of.values() if way.kind == GEO), None)
    rows = row_way_costs(draft.costs, made, request.sample, k) if k else ()
    by_rows = choose_row_ways(rows)
    dense = choose_ways(request.graph, ways) if ways else {}
    choices = [request.parameters] if request.parameters else [{**dense, **by_rows}, *([by_rows] if dense else [])]
    made = fastest(made, choices, draft.costs, request.sample)
    made = _with_asked(made, request.goal.target)
    return replace(
        made,
        certificate=_certificate(request, choice, seconds),
        rivals=tuple(rivals(request, draft)),
        assumptions=(
            *assumptions(request, draft),
            _mode_text(made, given),
            *_step_texts(made),
            *on_gpu,
            *(way_texts(ways, bool(request.parameters)) if ways else ()),
            *((_SLOWER,) if dense and made.parameters == by_rows else ()),
            *row_way_texts(rows, ways_of),
            *cache_texts(request.graph, request.sample, ways_of, made.mode, made.batch_size),
        ),
    )


def _asks(mode: Mode | None) -> dict[str, Any]:
    """What a mode asks of plans."""
    return {"depth": mode.held if isinstance(mode, Async) else None, "even": mode is not None and mode.ordered}


def _with_asked(made: Plan, target: float | None) -> Plan:
    """A plan that says how many rows per second were asked for, if so many were."""
    return made if made.forecast is None else replace(made, forecast=replace(made.forecast, asked=target or 0.0))


def _mode_text(made: Plan, given: Mode | None) -> str:
    """Say which mode a plan is for, and why."""
    if given == made.mode:
        whole = ": plans of one stage, as every worker trains on rows of its own" if made.mode.adds else ""
        return f"mode {made.mode.name}, as was asked for{whole}"
    if given is None and isinstance(made.mode, Async):
        return f"mode {made.mode.name}: nobody asked for another one (mode=, --mode)"
    return f"mode {made.mode.name}, which the ways of parameters take"


def _step_texts(made: Plan) -> Iterable[str]:
    """What lanes that keep step mean for what is learned, and for the plan."""
    if made.mode.ordered:
        yield f"a step adds up {made.lanes * made.batch_size:,} rows: a batch of each of {made.lanes} lanes"
        yield "stages are on one pool each: lanes keep step, so that faster workers would wait for slower ones"


def _sampled(graph: Graph, sample: Sample | Dataset | Iterable[Mapping[str, Any]] | None) -> Sample | None:
    if isinstance(sample, Dataset):
        return sample_dataset(graph, sample)
    return sample if sample is None or isinstance(sample, Sample) else sample_batches(graph, sample)


def _unit(request: Request) -> tuple[str, float]:
    """What the certificate's figures are, and the factor from the search's."""
    priced = is_priced(request.hardware)
    if isinstance(request.goal, MinCost):
        return ("price per million rows", 1e6 / 3600) if priced else ("units per million rows/s", 1e6)
    return (request.goal.objective if priced or not isinstance(request.goal, FixedRate) else "units", 1.0)


def _certificate(request: Request, choice: Choice, seconds: float) -> Certificate:
    found, (objective, factor) = choice.draft.found, _unit(request)
    proof = f"{found.proof}; {choice.over}"
    if abs(choice.bound - found.bound) > _OPEN * found.value:
        proof = (
            "between the two no plan was found that has room for its batches in flight, nor the proof that there is "
            f"none; {choice.over}"
        )
    if not solver(request.solver).proves:
        proof = f"{NO_PROOF}the bound is for plans of this solver's kind only"
    gap = abs(found.value - choice.bound) / found.value if found.value else 0.0
    return Certificate(
        request.solver, objective, found.value * factor, choice.bound * factor, gap, proof, found.solves, seconds
    )


def assumptions(request: Request, draft: Draft) -> Iterable[str]:
    """What the forecast rests on, in words."""
    yield request.goal_text
    yield from _limits(request, draft)
    if draft.costs.batch_size > _LARGE_BATCH:
        yield (
            f"batches of {draft.costs.batch_size:,} rows: large batches change what is learned; bound them "
            "(--batch-size 256..8192) unless that was tried"
        )
    if request.head_room:
        yield f"{request.head_room:.0%} of everything stays free"
    measured = [pool.name for pool in request.hardware.pools if pool.name in request.profile.pools]
    for pool in request.hardware.pools:
        if pool.name not in measured:
            yield f"pool {pool.name}: rates {draft.costs.rates(pool).source}, all work scales with units"
    yield from _prices(request.hardware)
    yield from _unused_rates(request.hardware)
    if measured:
        yield f"rates of {', '.join(measured)} were measured"
    seen = "sampled" if request.sample else "measured" if request.profile.unique_fraction else "assumed"
    yield f"{request.unique_fraction:.0%} of the ids of a batch are distinct ({seen})"
    for table in draft.costs.tables:
        yield f"table rows {table.group}: {table.rows:,.0f} ({table.basis})"
    placed = placed_tables(draft.costs, draft.server, draft.pins)
    yield from disk_texts(request.graph, draft.costs.tables, placed)
    for host in request.hardware.hosts:
        on = [pool.name for pool in request.hardware.pools if pool.host == host.name]
        if not on:
            continue
        yield f"pools {', '.join(on)} and their shard hosts share {host.cores} cores of host {host.name}"
    if any(pool.emulated for pool in request.hardware.pools):
        yield "emulated: a pool tagged GPU runs NumPy"


def _limits(request: Request, draft: Draft) -> Iterable[str]:
    """What keeps the most throughput from being more: the budget, machines of which all are taken."""
    goal, price = request.goal, _spent(request, draft)
    if not isinstance(goal, MaxThroughput):
        return
    if math.isfinite(goal.price_per_hour):
        budget = paid_text(goal.price_per_hour, is_priced(request.hardware))
        yield f"{price:,.2f} of the budget of {budget} is spent"
    for each in draft.purchases:
        pool = request.hardware.pool(next(iter(each.holds)))
        product = request.hardware.product_of(pool.name)
        cap = pool.cap if product is None else product.cap
        if cap is not None and each.count * (each.holds[pool.name] if product is None else 1) >= cap:
            yield f"all {cap} {each.name} are taken: with more of them (cap) it might be more"


def _spent(request: Request, draft: Draft) -> float:
    """Price per hour of what is bought, as the report has it: in the search some pools cost next to nothing more."""
    if not is_priced(request.hardware):
        return draft.found.placement.price
    return sum(each.count * each.price_per_hour for each in draft.purchases)


def _prices(hardware: Hardware) -> Iterable[str]:
    """How old each price is."""
    for pool in hardware.pools:
        if pool.device.price_per_hour:
            age = f"of {pool.device.price_date}" if pool.device.price_date else "without a date"
            yield f"pool {pool.name}: price {age}, {pool.device.price_per_hour:g} an hour for a unit"
    for product in hardware.products:
        holds = ", ".join(f"{units} {name}" for name, units in product.pools.items())
        age = f"of {product.price_date}" if product.price_date else "without a date"
        price = f"price {age}, {product.price_per_hour:g} an hour" if product.price_per_hour else "no price"
        yield f"product {product.name}: {price}, rented whole with {holds}"


def _unused_rates(hardware: Hardware) -> Iterable[str]:
    """Faster arithmetic that a device has and models, which compute in float32, do not use."""
    for pool in hardware.pools:
        slow = pool.device.flops["float32"]
        faster = [f"{dtype} {rate / slow:.2g} times" for dtype, rate in pool.device.flops.items() if rate > slow]
        if faster:
            yield f"pool {pool.name}: computes in float32; not used: {', '.join(faster)} that rate"
