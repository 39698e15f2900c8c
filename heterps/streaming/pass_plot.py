"""A picture of a log: the metrics of a stream over its passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from heterps.svg import INK, picture, text

__all__ = ["draw_passes"]

_WIDTH, _LEFT, _RIGHT, _PANEL, _GAP, _TOP = 860.0, 64.0, 130.0, 150.0, 44.0, 34.0
_FAINT, _GRID, _COLOURS = "#4a5568", "#e2e8f0", ("#2b6cb0", "#c05621")
_NOT_DRAWN = ("bad_rows",)
_DOTS = 80  # passes up to which each has its dot

Points = list[tuple[int, float]]


def draw_passes(log: pa.Table) -> str:
    """Draw a panel for each metric: its value pass by pass, and the total; days are told apart below."""
    rows = log.to_pylist()
    series: dict[str, tuple[Points, Points]] = {}
    days: dict[int, str] = {}
    for row in rows:
        days[row["sequence"]] = row["day"]
        if row["group"] or row["measure"] in _NOT_DRAWN:
            continue
        value, total = series.setdefault(row["measure"], ([], []))
        _add(value, row["sequence"], row["value"])
        if row["measure"] != "rows":
            _add(total, row["sequence"], row["total"])
    names = sorted((name for name in series if series[name][0]), key=_rank)
    height = _TOP + len(names) * (_PANEL + _GAP) + 26
    title = f"{len(days):,} passes, predicted before they were trained on"
    body = text(_LEFT, 20, title, INK, size=14, bold=True)
    across = _scale(min(days, default=0), max(days, default=1), _LEFT, _WIDTH - _RIGHT)
    body += _days(days, across, height)
    for number, name in enumerate(names):
        body += _panel(name, *series[name], across, _TOP + number * (_PANEL + _GAP) + 14)
    return picture(_WIDTH, height, body, "white")


def _rank(name: str) -> tuple[int, str]:
    """AUC first: it is what most look for; how many rows there were last."""
    first, kind = ("auc", "gauc"), name.partition(":")[0]
    return (first.index(kind) if kind in first else 9 if name == "rows" else 5), name


def _add(points: Points, at: int, value: Any) -> None:
    if value is not None and math.isfinite(value):
        points.append((at, float(value)))


def _scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    room = (high - low) or 1.0
    return lambda value: start + (value - low) / room * (stop - start)


def _panel(name: str, value: Points, total: Points, across: Callable[[float], float], top: float) -> str:
    every = [y for _, y in (*value, *total)]
    low, high = min(every), max(every)
    pad = 0.06 * ((high - low) or abs(high) or 1.0)
    up = _scale(low - pad, high + pad, top + _PANEL, top)
    body = text(_LEFT, top - 6, name, INK, bold=True)
    for at in _ticks(low - pad, high + pad):
        y = up(at)
        body += f'<path d="M{_LEFT} {y:.1f} H{_WIDTH - _RIGHT}" stroke="{_GRID}"/>'
        body += text(_LEFT - 8, y + 4, f"{at:,.10g}", _FAINT, "end", size=11)
    body += _line(value, across, up, _COLOURS[0], 1.6) + _line(total, across, up, _COLOURS[1], 1.6)
    ends = [(up(value[-1][1]), f"pass {_short(value[-1][1])}", _COLOURS[0])]
    ends += [(up(total[-1][1]), f"total {_short(total[-1][1])}", _COLOURS[1])] if total else []
    for y, words, colour in _apart(ends):
        body += text(_WIDTH - _RIGHT + 8, y + 4, words, colour, size=11)
    return body


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _apart(ends: list[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    """Move two labels away from each other where they would overlap."""
    if len(ends) == 2 and abs(ends[0][0] - ends[1][0]) < 13:
        upper, lower = sorted(ends)
        middle = (upper[0] + lower[0]) / 2
        return [(middle - 6.5, *upper[1:]), (middle + 6.5, *lower[1:])]
    return ends


def _line(
    points: Points, across: Callable[[float], float], up: Callable[[float], float], colour: str, width: float
) -> str:
    if not points:
        return ""
    path = " L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in points)
    drawn = f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'
    if len(points) <= _DOTS:
        drawn += "".join(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2" fill="{colour}"/>' for x, y in points)
    return drawn


def _ticks(low: float, high: float) -> Sequence[float]:
    """Return some round numbers between two, about four."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _days(days: dict[int, str], across: Callable[[float], float], height: float) -> str:
    """Name the days below, as many as there is room for."""
    first: dict[str, int] = {}
    for sequence in sorted(days):
        first.setdefault(days[sequence], sequence)
    body, free = "", 0.0
    for day, sequence in first.items():
        x = across(sequence)
        if day and x >= free:
            body += f'<path d="M{x:.1f} {_TOP} V{height - 24:.1f}" stroke="{_GRID}" stroke-dasharray="3 3"/>'
            body += text(x, height - 10, day, _FAINT, size=11)
            free = x + 7.0 * len(day) + 12
    return body
