"""Pictures of a plan as inline SVG: the split graph, the frontier of price and throughput, the pipeline over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from heterps.planner.costs.steady import miniature
from heterps.planner.plan import Plan, Stage
from heterps.planner.show.figures import count_text, money_text, seconds_text
from heterps.simulator.timed.play import Bar, Played
from heterps.stages import Layers, Part, Partition
from heterps.stages.draw import draw
from heterps.svg import picture, text

__all__ = ["draw_frontier", "draw_split", "draw_timeline"]

WIDTH = 860
_INK, _FAINT, _GRID = "#1a202c", "#4a5568", "#e2e8f0"
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280")
_MOST_UNITS = 4


def draw_split(plan: Plan, layers: Layers) -> str:
    """The Layers in one column per stage, with the bytes that cross."""
    parts = tuple(Part(_column(stage.name, stage.workers), stage.layers, stage.ops) for stage in plan.stages)
    stage_of = {name: i for i, stage in enumerate(plan.stages) for name in stage.layers}
    names = [layer.name for layer in layers.layers]
    crossing = {
        edge.tensor: edge.forward_bytes + edge.backward_bytes
        for edge in layers.edges
        if stage_of[names[edge.source]] != stage_of[names[edge.target]]
    }
    return draw(Partition(layers, parts, sum(crossing.values())))


def _column(name: str, workers: dict[str, int]) -> str:
    return f"{name}: " + " + ".join(f"{units} {pool}" for pool, units in workers.items())


def draw_frontier(
    points: Sequence[tuple[float, float]], chosen: tuple[float, float] | None = None, what: str = "price an hour"
) -> str:
    """Least price per hour (or units) against rows per second, both logarithmic; the plan is the filled point."""
    shown, free = [(x, y) for x, y in points if x > 0 and y > 0], [x for x, y in points if y == 0]
    if len(shown) < 2:
        if free:
            return f"<p>Up to {count_text(max(free))} rows a second cost nothing.</p>"
        return "<p>One point only: nothing cheaper or faster is possible here.</p>"
    every = shown + ([chosen] if chosen and min(chosen) > 0 else [])
    height, left, bottom = 320, 76, 46
    xs, ys = _scale([x for x, _ in every], left, WIDTH - 24), _scale([y for _, y in every], height - bottom, 20)
    body = _axes(xs, ys, height, left, bottom, what)
    steps = f"M{xs(shown[0][0]):.1f} {ys(shown[0][1]):.1f}"
    for x, y in shown[1:]:
        steps += f" V{ys(y):.1f} H{xs(x):.1f}"
    body += f'<path d="{steps}" fill="none" stroke="{_COLOURS[0]}" stroke-width="2"/>'
    for x, y in shown:
        price = f"{money_text(y)} an hour, {money_text(y / 3600 * 1e6 / x)} per million rows"
        tip = f"{count_text(x)} rows/s, {f'{y:.0f} units' if what == 'units' else price}"
        dot = f'cx="{xs(x):.1f}" cy="{ys(y):.1f}" r="3" fill="white" stroke="{_COLOURS[0]}"'
        body += f"<circle {dot}><title>{tip}</title></circle>"
    if chosen and min(chosen) > 0:
        body += f'<circle cx="{xs(chosen[0]):.1f}" cy="{ys(chosen[1]):.1f}" r="6" fill="{_COLOURS[1]}"/>'
        anchor = "end" if xs(chosen[0]) > WIDTH / 2 else "start"
        shift = -12 if anchor == "end" else 12
        body += text(xs(chosen[0]) + shift, ys(chosen[1]) - 8, "this plan", _COLOURS[1], anchor, bold=True)
    return picture(WIDTH, height, body)


class _scale:  # noqa: N801 (used as a function)
    """Logarithmic scale from values to positions, with a margin."""

    def __init__(self, values: Sequence[float], start: float, stop: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        pad = max(0.05 * (high - low), 0.02)
        self.low, self.high, self.start, self.stop = low - pad, high + pad, start, stop

    def __call__(self, value: float) -> float:
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Ones, twos and fives in range."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        values = [m * 10.0**p for p in powers for m in (1, 2, 5)]
        return [v for v in values if self.low <= math.log10(v) <= self.high]


def _axes(xs: _scale, ys: _scale, height: float, left: float, bottom: float, what: str) -> str:
    body = ""
    for x in xs.ticks():
        body += f'<path d="M{xs(x):.1f} 20 V{height - bottom}" stroke="{_GRID}"/>'
        body += text(xs(x), height - bottom + 18, count_text(x), _FAINT, "middle")
    for y in ys.ticks():
        body += f'<path d="M{left} {ys(y):.1f} H{WIDTH - 24}" stroke="{_GRID}"/>'
        body += text(left - 8, ys(y) + 4, f"{y:,.10g}", _FAINT, "end")
    body += text((left + WIDTH) / 2, height - 6, "rows per second", _INK, "middle")
    return body + text(4, 13, what, _INK, "start")


def draw_timeline(plan: Plan, played: Played | None) -> str:
    """Bars of some units: forward light, backward dark, one colour per stage, the number of the batch inside."""
    if played is None:
        return "<p>The plan was not played.</p>"
    began = min(bar.start_s for bar in played.bars)
    bars = [replace(bar, start_s=bar.start_s - began, stop_s=bar.stop_s - began) for bar in played.bars]
    stages = _played_stages(plan, bars)
    rows = [(s, u, name) for s, stage in enumerate(stages) for u, name in enumerate(_workers(stage)[:_MOST_UNITS])]
    end = _window(bars)
    left, top, step = 150, 26, 24
    height = top + step * len(rows) + 40
    scale = (WIDTH - left - 16) / end
    body = ""
    for i, (s, u, name) in enumerate(rows):
        body += text(left - 10, top + step * i + 15, f"{plan.stages[s].name} {name}", _INK, "end")
        body += f'<path d="M{left} {top + step * (i + 1) - 2} H{WIDTH - 16}" stroke="{_GRID}"/>'
        body += "".join(_bar(b, left, top + step * i, scale, end) for b in bars if (b.stage, b.unit) == (s, u))
    for k in range(5):
        x = left + (WIDTH - left - 16) * k / 4
        body += text(
            x,
            height - 14,
            seconds_text(end * k / 4) if k else "0",
            _FAINT,
            ("start", "middle", "middle", "middle", "end")[k],
        )
    hidden = sum(max(0, sum(stage.workers.values()) - _MOST_UNITS) for stage in plan.stages)
    note = f"; {hidden} more units work alike" if hidden else ""
    body += text(
        left,
        14,
        f"batches by number: forward light, backward (and both at once, at the end) dark{note}",
        _FAINT,
        "start",
    )
    return picture(WIDTH, height, body)


def _played_stages(plan: Plan, bars: Sequence[Bar]) -> tuple[Stage, ...]:
    """The stages of the plan in miniature, as large plans are played, or of the plan if more units than that played."""
    small = miniature(plan).stages
    return small if all(bar.unit < len(_workers(small[bar.stage])) for bar in bars) else plan.stages


def _workers(stage: Stage) -> list[str]:
    """Workers of a stage by pool and number, in the order in which they are played."""
    return [f"{pool}-{n}" for pool, units in stage.workers.items() for n in range(units)]


def _window(bars: Sequence[Bar]) -> float:
    """Six turns of the slowest bar from where all stages are at work: the filling of the pipeline, then its run."""
    longest = max(bar.stop_s - bar.start_s for bar in bars)
    begun: dict[int, float] = {}
    for bar in bars:
        begun[bar.stage] = min(begun.get(bar.stage, bar.start_s), bar.start_s)
    return min(max(bar.stop_s for bar in bars), max(begun.values()) + 6 * longest)


def _bar(bar: Bar, left: float, y: float, scale: float, end: float) -> str:
    if bar.start_s >= end:
        return ""
    x, width = left + bar.start_s * scale, max((min(bar.stop_s, end) - bar.start_s) * scale, 0.6)
    colour, opacity = _COLOURS[bar.stage % len(_COLOURS)], 0.95 if bar.backward or bar.is_last else 0.5
    label = text(x + width / 2, y + 14, str(bar.batch), "white", "middle", size=10) if width > 16 else ""
    title = f"batch {bar.batch}, {seconds_text(bar.start_s)} to {seconds_text(bar.stop_s)}"
    return (
        f'<g><title>{title}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="19" rx="2" fill="{colour}" '
        f'opacity="{opacity}" stroke="white" stroke-width="0.7"/>{label}</g>'
    )
