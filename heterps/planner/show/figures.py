"""Figures as people write them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from heterps.errors import PlanError

__all__ = [
    "bytes_text",
    "count_text",
    "counted_text",
    "money_text",
    "parse_count",
    "part_text",
    "percent_text",
    "ranges_text",
    "seconds_text",
]

_SUFFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


def count_text(value: float) -> str:
    """Write 1234567 as 1.23M."""
    return _scaled(value, ("", "k", "M", "G", "T", "P"), 1000)


def bytes_text(value: float) -> str:
    """Write bytes with a decimal unit."""
    return _scaled(value, (" B", " kB", " MB", " GB", " TB", " PB"), 1000)


def _scaled(value: float, units: tuple[str, ...], step: float) -> str:
    if math.isinf(value):
        return "unlimited"
    power = 0 if abs(value) < step else min(int(math.log(abs(value), step) + 1e-9), len(units) - 1)
    scaled = value / step**power
    digits = (
        0 if power == 0 and float(scaled).is_integer() else 2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0
    )
    return f"{scaled:.{digits}f}{units[power]}"


def seconds_text(value: float) -> str:
    """Write seconds with a unit that fits."""
    if value >= 1000:
        return f"{value:,.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1 or unit == "µs":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError("the last unit takes everything")


def part_text(value: float, star: str = "") -> str:
    """Write what a part of something takes, with its mark; a dash where it takes nothing."""
    return f"{seconds_text(value)}{star}" if value else "-"


def money_text(value: float) -> str:
    """Write a price with as many digits as it needs."""
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.3g}"


def percent_text(value: float) -> str:
    """Write a fraction as a percentage."""
    return f"{100 * value:.0f} %" if value == 0 or abs(value) >= 0.01 else f"{100 * value:.2g} %"


def ranges_text(numbers: Iterable[int]) -> str:
    """Write whole numbers in short: 0-3, 7, 9-12."""
    runs = [
        [n for _, n in run] for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def counted_text(count: int, what: str) -> str:
    """Write a number of things: 1 lane, 2 lanes."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def parse_count(text: str) -> float:
    """Read 500k, 1.5M, 2e6 or 250000."""
    body = text.strip().lower().replace(",", "").replace("_", "")
    suffix = body[-1] if body and body[-1] in "kmbgt" else ""
    try:
        number = float(body.removesuffix(suffix)) * _SUFFIXES[suffix]
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise PlanError(f"{text!r} is not a number: write 500000, 500k or 1.5M")
    return number
