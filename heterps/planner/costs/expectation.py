"""What a given plan is expected to do: forecast without the search, or played, for plans made by hand or loaded."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from heterps.errors import PlanError
from heterps.graph import Graph
from heterps.hardware import Hardware
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.planning_model import build_problem
from heterps.planner.costs.playing import play_plan
from heterps.planner.costs.profile import Profile
from heterps.planner.costs.sample import Sample
from heterps.planner.costs.table_memory import forecast_tables, new_rows
from heterps.planner.plan import Plan, Stage
from heterps.planner.solve.assemble import Draft, assemble
from heterps.planner.solve.placement import Placement, Segment
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import SearchResult
from heterps.simulator.timed.play import Played
from heterps.stages import Layers, layers_of, lower
from heterps.stages.contract import UNIQUE_FRACTION

__all__ = ["by_hand", "forecast", "play"]


def by_hand(
    graph: Graph,
    hardware: Hardware,
    stages: Sequence[tuple[str, Sequence[str], int]],
    *,
    batch_size: int,
    shard_hosts: int = 1,
    shard_pool: str | None = None,
    depth: int = 2,
) -> Plan:
    """Make a plan from stages ``(pool, layers, units)``: layer names or patterns, each Layer to the first that fits.

    Examples
    --------
    >>> from heterps.models import wide_deep
    >>> made = by_hand(wide_deep(), Hardware.local(), [("cpu", ["read", "pull*"], 1), ("cpu", ["*"], 1)], batch_size=64)
    >>> [stage.layers[0] for stage in made.stages]
    ['read', 'wide']
    """
    pieces = layers_of(graph, batch_size=batch_size)
    order = {op.name: i for i, op in enumerate(lower(graph).graph)}
    left = list(pieces.layers)
    made = []
    for i, (pool, patterns, units) in enumerate(stages):
        chosen = [layer for layer in left if _matches(layer.name, patterns)]
        left = [layer for layer in left if layer not in chosen]
        ops = sorted((op for layer in chosen for op in layer.ops), key=order.__getitem__)
        made.append(Stage(_name(i, len(stages)), tuple(layer.name for layer in chosen), tuple(ops), pool, units))
    if left:
        raise PlanError(f"no stage takes layer {left[0].name!r}; give the last stage the layers ['*']")
    pools = dict.fromkeys([*(pool for pool, _, _ in stages), shard_pool or stages[0][0]])
    return Plan(
        graph,
        tuple(made),
        tuple(hardware.pool(name) for name in pools),
        batch_size,
        shard_hosts=shard_hosts,
        shard_pool=shard_pool or stages[0][0],
        lanes=made[0].units,
        depth=depth,
        assumptions=("made by hand",),
    )


def forecast(
    plan: Plan,
    hardware: Hardware,
    profile: Profile | None = None,
    sample: Sample | None = None,
    rows: float | None = None,
) -> Plan:
    """Return the plan with a forecast of what it does on this hardware."""
    costs = _costs(plan, hardware, profile, sample, rows)
    layers = costs.layers
    server = hardware.pool(plan.shard_pool)
    problem = replace(build_problem(costs, server), members=_states(plan, layers))
    segments = tuple(_segment(plan, hardware, i) for i in range(len(plan.stages)))
    placement = Placement(segments, plan.shard_hosts, problem.price_of(segments, plan.shard_hosts), -math.inf)
    sustained = _sustained(problem, placement)
    found = SearchResult(placement, sustained, sustained, sustained, "not searched", 0)
    made = assemble(Draft(costs, problem, server, found, {}), mode=plan.mode)
    return replace(plan, forecast=made.forecast, memory_bytes=made.memory_bytes)


def play(
    plan: Plan,
    hardware: Hardware,
    profile: Profile | None = None,
    sample: Sample | None = None,
    *,
    splits: tuple[int, ...] | None = None,
    passes: int = 1,
    cut_every_s: float = 0.0,
    slow: Mapping[int, float] | None = None,
) -> Played:
    """Play a plan in simulated time: the run's own protocol, with what everything takes on this hardware.

    Parameters
    ----------
    splits
        Batches of each Split; by default two of 40 for each worker that reads.
    passes
        How often they are gone through.
    cut_every_s
        Seconds between cuts; 0: none.
    slow
        How many times as long a worker takes, by the number of the worker that reads.

    Examples
    --------
    >>> from heterps.models import wide_deep
    >>> made = by_hand(wide_deep(), Hardware.local(), [("cpu", ["*"], 2)], batch_size=64)
    >>> play(made, Hardware.local(), splits=(5, 5)).batches
    10
    """
    costs = _costs(plan, hardware, profile, sample, None)
    return play_plan(plan, costs, splits=splits, passes=passes, cut_every_s=cut_every_s, slow=slow, sample=sample)


def _costs(plan: Plan, hardware: Hardware, profile: Profile | None, sample: Sample | None, rows: float | None) -> Costs:
    known = profile or Profile({})
    unique = sample.unique_fraction if sample else known.unique_fraction or UNIQUE_FRACTION
    layers = layers_of(plan.graph, batch_size=plan.batch_size, unique_fraction=unique)
    tables = forecast_tables(plan.graph, sample, rows)
    new = new_rows(tables, sample, rows)
    copies, one = plan.replicas, plan.is_fused
    return Costs(plan.graph, layers, hardware, known, tables, replicas=copies, new_rows=new, fused=one)


def _sustained(problem: Problem, placement: Placement) -> float:
    speed = problem.sustained(placement)
    if not speed > 0:
        raise PlanError("the plan has a stage without workers")
    return speed


def _states(plan: Plan, layers: Layers) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """States between the plan's stages, by Layer."""
    stage_of = {op: i for i, stage in enumerate(plan.stages) for op in stage.ops}
    where = np.array([stage_of[layer.ops[0]] for layer in layers.layers])
    for layer in layers.layers:
        if len({stage_of[op] for op in layer.ops}) > 1:
            raise PlanError(f"the plan splits layer {layer.name!r}, whose ops run together: {', '.join(layer.ops)}")
    return np.stack([where < i for i in range(len(plan.stages) + 1)])


def _segment(plan: Plan, hardware: Hardware, i: int) -> Segment:
    stage = plan.stages[i]
    types = {pool.name: t for t, pool in enumerate(hardware.pools)}
    hardware.pool(stage.pool)
    if not stage.also:
        return Segment(i, i + 1, types[stage.pool], stage.units)
    return Segment(i, i + 1, types[stage.pool], stage.units, types[stage.also[0].pool], stage.also[0].units)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _name(i: int, count: int) -> str:
    return "all" if count == 1 else "io" if i == 0 else "compute" if i == count - 1 else f"middle{i}"
