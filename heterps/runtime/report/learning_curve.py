"""Loss and metrics over samples, as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heterps.runtime.report.history import Point
from heterps.svg import picture, text

__all__ = ["draw_curve"]

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 720.0, 64.0, 150.0, 48.0, 170.0, 46.0
_FAINT, _GRID = "#4a5568", "#e2e8f0"
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b7791f", "#c53030")
_RATIO = 4.0  # a metric that is so many times another's size gets a panel of its own

Curve = list[tuple[float, float]]


def draw_curve(points: Sequence[Point], title: str = "") -> str:
    """Return a self-contained SVG: a panel for the loss, and one for metrics of like size; validation as dots."""
    panels = [_finite({"loss": [(p.samples, p.loss) for p in points]}), *_alike(_metrics(points))]
    panels = [panel for panel in panels if panel]
    most = max((p.samples for p in points), default=1) or 1
    height = TOP + (PANEL + GAP) * max(1, len(panels)) + 10
    body = text(LEFT, 26, title or "Learning curve", size=16, bold=True)
    if not panels:
        body += text(LEFT, TOP + 30, "nothing was reported yet", _FAINT)
    for i, panel in enumerate(panels):
        body += _panel(panel, TOP + i * (PANEL + GAP), most)
    return picture(WIDTH, height, body, "white")


def _metrics(points: Sequence[Point]) -> dict[str, Curve]:
    found: dict[str, Curve] = {}
    for p in points:
        for prefix, measured in (("", p.metrics), ("valid ", p.valid)):
            for name, value in measured.items():
                found.setdefault(prefix + name, []).append((p.samples, value))
    return _finite(found)


def _finite(curves: dict[str, Curve]) -> dict[str, Curve]:
    kept = {name: [(x, y) for x, y in curve if math.isfinite(y)] for name, curve in curves.items()}
    return {name: curve for name, curve in kept.items() if curve}


def _alike(curves: dict[str, Curve]) -> list[dict[str, Curve]]:
    """Put curves whose sizes are alike together, at most as many as there are colours."""
    panels: list[dict[str, Curve]] = []
    for name, curve in sorted(curves.items(), key=lambda item: _size(item[1])):
        last = panels[-1] if panels else {}
        near = last and _size(curve) <= _RATIO * max(_size(next(iter(last.values()))), 1e-9)
        if near and len(last) < len(_COLOURS):
            last[name] = curve
        else:
            panels.append({name: curve})
    return panels


def _size(curve: Curve) -> float:
    return max(abs(y) for _, y in curve)


def _panel(curves: dict[str, Curve], top: float, most: float) -> str:
    values = [y for curve in curves.values() for _, y in curve]
    low, high = min(values), max(values)
    low, high = (low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)) if low == high else (low, high)
    room = WIDTH - LEFT - RIGHT

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + room * x / most, top + PANEL * (1 - (y - low) / (high - low))

    body = ""
    for i in range(5):
        level = low + (high - low) * i / 4
        _, y = at(0, level)
        body += f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + room:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>'
        body += text(LEFT - 8, y + 4, f"{level:.4g}", _FAINT, "end", size=11)
        body += text(LEFT + room * i / 4, top + PANEL + 18, _count(most * i / 4), _FAINT, "middle", size=11)
    for i, (name, curve) in enumerate(curves.items()):
        body += _line([at(x, y) for x, y in curve], _COLOURS[i], dots=name.startswith("valid ") or len(curve) == 1)
        body += text(LEFT + room + 12, top + 14 + 18 * i, f"{name} {curve[-1][1]:.4g}", _COLOURS[i])
    return body


def _line(points: Curve, colour: str, dots: bool) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    drawn = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>' if len(points) > 1 else ""
    return drawn + (
        "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points) if dots else ""
    )


def _count(samples: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if samples >= size:
            return f"{samples / size:.3g} {unit}"
    return f"{samples:.0f}"
