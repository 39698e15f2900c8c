"""A plan played until it is in its stride: its rate where nothing begins or ends, in miniature if it is large."""

from __future__ import annotations

import math
from dataclasses import replace

from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.playing import play_plan
from heterps.planner.costs.sample import Sample
from heterps.planner.plan import Plan
from heterps.simulator.timed.play import Played

__all__ = ["miniature", "steady_play", "steady_splits"]

_RANGES = 4  # that a worker plays at the least, where something is owed for several batches together
_MOST_BATCHES = 8_000  # that are played of a plan whose workers are of unequal speed
_MOST_PLAYED = 24  # workers beyond which a pipeline is played in miniature, where only its rate is asked for


def steady_play(plan: Plan, costs: Costs, sample: Sample | None = None) -> tuple[Plan, Played]:
    """Play a plan in its mode, in miniature if it is large, long enough to be in its stride."""
    small = miniature(plan)
    splits = steady_splits(small)
    return small, play_plan(small, costs, splits=splits, sample=sample, called=plan.shard_hosts)


def steady_splits(plan: Plan) -> tuple[int, ...]:
    """A Split for every lane, on which its worker is at work as long as others on theirs: nobody begins another."""
    first = plan.stages[0]
    if plan.mode.ordered or not first.also:
        return (max(4 * plan.depth + 12, _RANGES * plan.mode.span),) * plan.lanes
    paces = {pool: share / first.workers[pool] for pool, share in first.shares.items()}
    time = max((4 * plan.depth_on(pool) + 12) / pace for pool, pace in paces.items())
    time = min(time, _MOST_BATCHES)  # the paces of all workers add up to one
    lanes = (pool for pool, units in first.workers.items() for _ in range(units))
    return tuple(max(_RANGES * plan.mode.span, round(time * paces[pool])) for pool in lanes)


def miniature(plan: Plan, most: int = _MOST_PLAYED) -> Plan:
    """A plan of fewer workers in about the same ratios, at most so many; the plan itself where it has no more."""
    total = sum(sum(stage.workers.values()) for stage in plan.stages) + plan.shard_hosts
    if total <= most:
        return plan
    scale = most / total

    def fewer(count: int) -> int:
        return max(1, math.floor(count * scale))

    stages = tuple(
        replace(
            stage,
            units=fewer(stage.units),
            also=tuple(replace(share, units=fewer(share.units)) for share in stage.also),
        )
        for stage in plan.stages
    )
    readers, fewer_readers = (sum(each[0].workers.values()) for each in (plan.stages, stages))
    lanes = max(1, round(plan.lanes * fewer_readers / readers))
    return replace(plan, stages=stages, lanes=lanes, shard_hosts=max(plan.replicas, fewer(plan.shard_hosts)))
