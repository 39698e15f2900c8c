"""Which of several ways parameters travel, by playing the plan on each: what a step takes leaves out who waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.sample import Sample
from heterps.planner.plan import Plan
from heterps.planner.solve.checks import played_beside, with_played
from heterps.planner.ways import mixed_mode
from heterps.protocol.words.modes import Async

__all__ = ["fastest", "played_rate"]


def fastest(made: Plan, choices: Sequence[Mapping[str, str]], costs: Costs, sample: Sample | None) -> Plan:
    """Return the plan on the ways on which it is played fastest, the first of those that are alike."""
    return max((_on_ways(made, ways, costs, sample) for ways in choices), key=played_rate)


def played_rate(made: Plan) -> float:
    """Rows per second that a plan is played at; where it was not, those of its forecast."""
    assert made.forecast is not None
    return made.forecast.rows_per_second if made.forecast.played is None else made.forecast.played


def _on_ways(made: Plan, ways: Mapping[str, str], costs: Costs, sample: Sample | None) -> Plan:
    made = replace(made, mode=mixed_mode(made.mode, ways), parameters=ways)
    if made.mode == Async(made.depth):  # so it was played while its depth was chosen
        return made
    return with_played(made, played_beside(made, costs, sample))
