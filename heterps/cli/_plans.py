"""The plan of a command that trains: one that was saved, or one made for this machine."""

from __future__ import annotations

from heterps.cli._models import is_saved_plan, load_graph, parse_settings
from heterps.data import Schema
from heterps.errors import DataError
from heterps.graph.weighting import weighted
from heterps.hardware import Hardware
from heterps.planner.plan import Plan
from heterps.planner.planner import plan as make_plan

__all__ = ["plan_of"]


def plan_of(
    target: str, settings: tuple[str, ...], batch_size: int | None, schema: Schema, weight: bool = False
) -> Plan:
    """Take a plan as it is; plan a graph for this machine, where ``weight`` is set with a weight in its loss."""
    if is_saved_plan(target):
        plan = Plan.load(target)
        if batch_size not in (None, plan.batch_size) or settings:
            raise DataError(f"{target} is a plan: its batch size and model are decided; plan again to change them")
        return plan
    graph = load_graph(target, parse_settings(settings), schema)
    return make_plan(weighted(graph) if weight else graph, Hardware.local(), batch_size=batch_size or 1024)
