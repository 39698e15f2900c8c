"""A plan in a few lines and one picture, for those who look at a training that goes on."""

from __future__ import annotations

from heterps.planner.plan import Plan
from heterps.planner.show.figures import count_text, counted_text
from heterps.stages import layers_of

__all__ = ["depth_text", "draw_plan", "lanes_text", "plan_lines", "ways_text"]


def plan_lines(plan: Plan) -> list[str]:
    """Return what runs where: a line for the whole and one for each stage."""
    hosts = f"{plan.shard_hosts} shard host{'s' if plan.shard_hosts > 1 else ''}"
    whole = f"batches of {plan.batch_size:,}, {plan.mode.name}, {hosts}"
    if plan.forecast is not None:
        whole += f", {count_text(plan.forecast.rows_per_second)} rows/s forecast"
    stages = (
        f"{stage.name}: {', '.join(f'{n} x {pool}' for pool, n in stage.workers.items())}, {len(stage.ops)} ops"
        for stage in plan.stages
    )
    return [whole, *stages]


def ways_text(plan: Plan) -> str:
    """How parameters travel, where the plan says so: ``fc* allreduce, * table``."""
    return ", ".join(f"{pattern} {way}" for pattern, way in plan.parameters.items())


def lanes_text(plan: Plan) -> str:
    """How many lanes, and how deep they are: in Sync workers have several, as each has one batch in flight."""
    readers, lanes = sum(plan.stages[0].workers.values()), counted_text(plan.lanes, "lane")
    if not plan.mode.ordered:
        return f"{lanes}, depth {depth_text(plan)}"
    return f"{lanes} on {counted_text(readers, 'worker')}" if plan.lanes != readers else lanes


def depth_text(plan: Plan) -> str:
    """Batches in flight per lane: one number, or one for each pool that reads."""
    return ", ".join(f"{depth} on {pool}" for pool, depth in plan.depths.items()) or str(plan.depth)


def draw_plan(plan: Plan) -> str:
    """Draw its layers in one column a stage, with the bytes that cross, as an SVG.

    Empty where the plan has other layers than its graph: made by hand, it may name none.
    """
    from heterps.planner.show.charts import draw_split  # the planner's own pictures take longer to import

    layers = layers_of(plan.graph, batch_size=plan.batch_size)
    planned = {name for stage in plan.stages for name in stage.layers}
    return draw_split(plan, layers) if planned == {layer.name for layer in layers.layers} else ""
