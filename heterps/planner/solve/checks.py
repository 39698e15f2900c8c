"""A plan compared with itself: its batches in flight with those that the search counts, its forecast with a play."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from heterps.errors import PlanError
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.sample import Sample
from heterps.planner.costs.steady import steady_play
from heterps.planner.plan import Plan, Stage
from heterps.planner.solve.assemble import Draft, in_flight
from heterps.planner.solve.placement import TOLERANCE
from heterps.simulator.timed.play import TooLongError

__all__ = ["PlayedBeside", "check_counted", "check_plan", "played_beside", "with_played"]

_PLAYED = 0.5  # of what the forecast says that a plan must reach when it is played
_LEFT_OUT_S = 5e-3  # messages and turns of one batch, which no forecast counts


def check_counted(draft: Draft) -> None:
    """Compare the batches in flight of a plan, as it is played, with those that the search counts for it.

    The bound rests on there being no fewer (see :mod:`heterps.planner.costs.on_the_way`).

    Raises
    ------
    PlanError
        If there are fewer: a bug of the planner.
    """
    segments, rate = draft.found.placement.segments, draft.found.rows_per_second
    each = max(draft.problem.way_of(segments), *map(draft.problem.own_flight, segments))
    if (least := each * rate) > in_flight(draft) * (1 + TOLERANCE):
        raise PlanError(_contradiction("batches in flight, at the least", least, in_flight(draft)))


@dataclass(frozen=True)
class PlayedBeside:
    """A plan in miniature, the rows per second at which it is forecast, and those at which it is played."""

    small: Plan
    forecast: float
    played: float
    alike: bool = True  # whether it is played as it was forecast: rows are pulled where the data is read

    @property
    def part(self) -> float:
        """What part of its forecast it reaches."""
        return self.played / self.forecast


def with_played(made: Plan, played: PlayedBeside | None) -> Plan:
    """A plan that says what came of playing it."""
    if made.forecast is None or played is None:
        return made
    return replace(made, forecast=replace(made.forecast, played=float(played.part * made.forecast.rows_per_second)))


def played_beside(made: Plan, costs: Costs, sample: Sample | None = None) -> PlayedBeside | None:
    """Play a plan in its mode beside its forecast; None if it cannot be played, or takes days for some batches."""
    later = _pulling_later(made, costs)
    if made.forecast is None or any(made.pool(stage.pool).kind == "gpu" for stage in later):
        return None  # tables on a GPU
    try:
        small, played = steady_play(made, costs, sample)
    except TooLongError:
        return None
    smaller = _least_rate(made, small) / _least_rate(made, made)
    return PlayedBeside(small, smaller * made.forecast.rows_per_second, played.rows_per_second, not later)


def check_plan(made: Plan, played: PlayedBeside | None) -> Plan:
    """Compare the figures of a finished plan with one another; what contradicts itself stops here.

    What the forecast leaves out (turns, messages, how many batches are under way) costs a few per cent, of tiny batches
    far more than computing does; a plan that is played at half its forecast beyond that was forecast by mistake.

    Raises
    ------
    PlanError
        With both figures: a bug of the planner.
    """
    for name, need in made.memory_bytes.items():
        pool = made.pool(name)
        if pool.host is None and need > pool.device.memory_bytes:
            raise PlanError(_contradiction(f"memory of a worker of {name} in bytes", pool.device.memory_bytes, need))
    if played is not None and played.alike and made.batch_size / played.played > _slowest_batch(played):
        raise PlanError(_contradiction("rows per second", played.forecast, played.played))
    return made


def _slowest_batch(played: PlayedBeside) -> float:
    """Seconds from batch to batch at which a plan may be played, at the most."""
    readers = sum(played.small.stages[0].workers.values())
    return played.small.batch_size / played.forecast / _PLAYED + _LEFT_OUT_S / readers


def _pulling_later(made: Plan, costs: Costs) -> list[Stage]:
    """Later stages that ask for rows."""
    pulling = {layer.ops[0] for layer in costs.layers.layers if layer.groups}
    return [stage for stage in made.stages[1:] if pulling & set(stage.ops)]


def _least_rate(made: Plan, small: Plan) -> float:
    """Rows per second of the slowest stage of a plan in miniature, or of its shard hosts, whatever was asked for."""
    assert made.forecast is not None
    fewer = [_part(a, b) for a, b in zip(made.stages, small.stages, strict=True)]
    rates = [part * stage.rows_per_second for part, stage in zip(fewer, made.forecast.stages, strict=True)]
    hosts = made.forecast.rows_per_second / made.forecast.shard_busy if made.forecast.shard_busy else math.inf
    return min(*rates, hosts * small.shard_hosts / made.shard_hosts)


def _part(stage: Stage, small: Stage) -> float:
    """What a stage with fewer workers carries of what it did, each pool its share."""
    return sum(share * small.workers[pool] / stage.workers[pool] for pool, share in stage.shares.items())


def _contradiction(what: str, planned: float, checked: float) -> str:
    return (
        f"the plan contradicts itself ({what}: {planned:,.4g} planned, {checked:,.4g} when it was checked). This is a "
        "bug in the planner; please report it with the graph, the hardware and the goal"
    )
