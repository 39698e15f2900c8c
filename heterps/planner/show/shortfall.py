"""What a plan says of itself where it is played far below its forecast."""

from __future__ import annotations

from collections.abc import Iterator

from heterps.planner.plan import Plan
from heterps.planner.show.figures import count_text
from heterps.stages import lower

__all__ = ["shortfall_texts"]


def shortfall_texts(plan: Plan) -> tuple[str, ...]:
    """Return how fast the plan is played, if that is far below its forecast; and what was asked for and is missed."""
    return tuple(_texts(plan))


def _texts(plan: Plan) -> Iterator[str]:
    forecast = plan.forecast
    if forecast is None or forecast.played is None or not forecast.falls_short:
        return
    part = forecast.played / forecast.rows_per_second
    yield f"played: {count_text(forecast.played)} rows/s, {part:.2f} of the forecast: {_why(plan)}"
    if forecast.misses:
        other = " or another mode" if plan.mode.ordered or plan.mode.adds else ""
        yield (
            f"warning: {count_text(forecast.asked)} rows/s were asked for, which it does not reach: ask for more, with "
            f"head-room (--head-room), larger batches{other}"
        )


def _why(plan: Plan) -> str:
    mode, later = plan.mode, {op for stage in plan.stages[1:] for op in stage.ops}
    if any(op.kind == "pull" and op.name in later for op in lower(plan.graph).graph):
        return "rows are pulled where the data is read, and not by a later stage (pin them there: --pin 'pull*=POOL')"
    if mode.ordered:
        return "lanes wait for one another at every step, and hosts for all of them"
    if mode.has_copy:
        return "workers wait for rows that they have not met, and for their turn at the hosts"
    return "batches wait for one another on their way"
