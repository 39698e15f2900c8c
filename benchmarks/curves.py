"""Small line charts side by side, both axes logarithmic, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 190, 200, 40, 40, 40
COLOURS = ("#334155", "#c2410c")
UNITS = ((1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Curve:
    """A named line through points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One chart: curves over the same x."""

    name: str
    curves: tuple[Curve, ...]


def panels(title: str, charts: Sequence[Panel]) -> str:
    """Return the charts in a row, with one scale of y for all of them."""
    values = [y for chart in charts for curve in chart.curves for _, y in curve.points]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    width, height = LEFT + WIDTH * len(charts) + 20, TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="16" font-size="13">{escape(title)}</text>',
    ]
    for i, name in enumerate(curve.name for curve in charts[0].curves):
        parts.append(f'<text x="{220 + 70 * i}" y="16" fill="{COLOURS[i]}">&#9679; {escape(name)}</text>')
    for number, chart in enumerate(charts):
        parts += _panel(chart, LEFT + number * WIDTH, low, high, labels=number == 0)
    return "\n".join([*parts, "</svg>", ""])


def _panel(chart: Panel, left: float, low: float, high: float, *, labels: bool) -> list[str]:
    xs = [x for x, _ in chart.curves[0].points]
    inner = WIDTH - 40

    def across(x: float) -> float:
        return left + 10 + inner * math.log(x / xs[0]) / max(math.log(xs[-1] / xs[0]), 1e-9)

    def up(y: float) -> float:
        return TOP + HEIGHT - HEIGHT * math.log(y / low) / math.log(high / low)

    parts, tick = [], low
    while tick <= high * 1.001:
        parts.append(f'<path d="M{left} {up(tick):.1f}h{inner + 20}" stroke="#e2e8f0"/>')
        if labels:
            parts.append(f'<text x="{left - 4}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
        tick *= 10
    for x in xs:
        parts.append(f'<text x="{across(x):.1f}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{_short(x)}</text>')
    at = f'x="{left + 10 + inner / 2}" y="{TOP + HEIGHT + 30}"'
    parts.append(f'<text {at} text-anchor="middle" font-weight="bold">{escape(chart.name)}</text>')
    for colour, curve in zip(COLOURS, chart.curves, strict=False):
        places = [(across(x), up(y)) for x, y in curve.points]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    return parts


def _short(x: float) -> str:
    for unit, name in UNITS:
        if x >= unit:
            return f"{x / unit:.3g}{name}"
    return f"{x:g}"
