"""A whole job in words: how long so many rows take and what they cost; and the figures in which people ask for it."""

from __future__ import annotations

import math
import re

from heterps.errors import PlanError
from heterps.planner.plan import Plan
from heterps.planner.show.figures import count_text, money_text, parse_count, seconds_text

__all__ = ["job_text", "parse_batch_sizes", "parse_duration", "parse_percent"]

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def job_text(plan: Plan, rows: float | None, deadline: float | None, budget: float | None) -> str:
    """Time and money for all rows; empty where their number is not known.

    Raises
    ------
    PlanError
        If the cheapest plan that is in time costs more than the budget of the job.
    """
    if rows is None or plan.forecast is None:
        return ""
    seconds = rows / plan.forecast.rows_per_second
    price = plan.forecast.price_per_million_rows * rows / 1e6
    if deadline is not None and budget is not None and price > budget * (1 + 1e-9):
        raise PlanError(
            f"{count_text(rows)} rows within {_time(deadline)} cost {money_text(price)}{_least(plan, rows)}, "
            f"the budget is {money_text(budget)}: {_remedy(seconds, deadline)}"
        )
    cost = f", {money_text(price)}" if price else ""
    return f"Job: {count_text(rows)} rows in {_time(seconds)}{cost}"


def _remedy(seconds: float, deadline: float) -> str:
    """What helps: more time, only where the cheapest plan takes most of what there is."""
    if seconds < deadline / 2:
        return f"raise it (the cheapest plan takes {_time(seconds)}, so more time hardly helps)"
    return "raise it, or give more time (--deadline)"


def _least(plan: Plan, rows: float) -> str:
    """What all of it costs at least, and over what that was proved."""
    proof = plan.certificate
    if proof is None or not proof.is_proof:
        return ""
    at_least = "no plan costs less" if proof.gap < 1e-9 else f"at least {money_text(proof.bound * rows / 1e6)}"
    return f" ({at_least}: {proof.proof})"


def parse_duration(text: str) -> float:
    """Read 90s, 90m, 6h or 2d; seconds."""
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*(s|m|min|h|d)\s*", str(text))
    try:
        seconds = float(found.group(1)) * _UNITS[found.group(2)] if found else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise PlanError(f"{text!r} is not a time: write 90s, 90m, 6h or 2d")
    return seconds


def parse_percent(text: str | float) -> float:
    """Read 20% or 0.2, from 0 to below 100 %; a fraction."""
    body = str(text).strip()
    try:
        value = float(body.removesuffix("%")) / (100 if body.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise PlanError(f"{text!r} is not a part below 100%: write 20% or 0.2")
    return value


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    """Read 4096, or 256..8192: the lower end, then each the double of the one before, up to the upper end."""
    low_text, dots, high_text = str(text).partition("..")
    try:
        low, high = (parse_count(part) for part in (low_text, high_text if dots else low_text))
    except PlanError:
        low = high = 0.0
    if not (1 <= low <= high and low == int(low) and high == int(high)):
        raise PlanError(f"{text!r} is no batch size: write 4096, or 256..8192")
    sizes = [int(low)]
    while sizes[-1] * 2 <= high:
        sizes.append(sizes[-1] * 2)
    return tuple(dict.fromkeys([*sizes, int(high)]))


def _time(seconds: float) -> str:
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.1f} days"
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 90 else seconds_text(seconds)
