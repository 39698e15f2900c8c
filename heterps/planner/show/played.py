"""What came of playing a plan, as text."""

from __future__ import annotations

from collections.abc import Iterator

from heterps.planner.plan import Plan
from heterps.planner.show.figures import bytes_text, count_text, percent_text, seconds_text
from heterps.simulator.timed.play import Played

__all__ = ["played_text"]


def played_text(plan: Plan, played: Played) -> str:
    """Return a few lines: how fast, how long, who worked."""
    return "\n".join(_lines(plan, played))


def _lines(plan: Plan, played: Played) -> Iterator[str]:
    count = "1 batch" if played.batches == 1 else f"{played.batches:,} batches"
    yield (
        f"Played: {count} in {plan.mode.name} mode, {count_text(played.rows_per_second)} rows/s"
        f"{_beside_forecast(plan, played)}"
    )
    over_all = played.rows / played.seconds
    yield (
        f"  all of it {seconds_text(played.seconds)} ({count_text(over_all)} rows/s), the first batch after "
        f"{seconds_text(played.start_s)}, the last {seconds_text(played.tail_s)} without all workers"
        + (f", {played.cuts} cuts" if played.cuts else "")
    )
    busy = ", ".join(f"{_named(plan, name)} {percent_text(part)}" for name, part in played.busy.items())
    yield f"  at work: {busy}"
    ways = ", ".join(f"{a} to {b} {bytes_text(rate)}/s" for (a, b), rate in played.bytes_per_second.items())
    yield f"  sent: {ways or 'nothing'}"


def _beside_forecast(plan: Plan, played: Played) -> str:
    if plan.forecast is None:
        return ""
    part = played.rows_per_second / plan.forecast.rows_per_second
    return f", {part:.2f} of the forecast {count_text(plan.forecast.rows_per_second)}"


def _named(plan: Plan, name: str) -> str:
    kind, _, number = name.partition(" ")
    return f"stage {plan.stages[int(number)].name}" if kind == "stage" else name
