"""Draw recorded runs over time: ``python -m docs.moves`` writes promotion.svg and handover.svg anew.

``python -m benchmarks.moves docs/promotion.json`` records one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from docs.pictures import ROOT, svg, text

WIDE, HIGH, LEFT, TOP, LINE = 620, 220, 70, 64, 17
TITLES = {
    "promotion": "A killed server, replicas=2: its backups answer, new backups are filled",
    "handover": "A retired server, replicas=1: its shard host is copied, then goes over",
}


def moves_svg(name: str) -> str:
    """Return the picture of a recording: samples applied over time, and what moved when."""
    told = json.loads((ROOT / "docs" / f"{name}.json").read_text())
    applied: list[tuple[float, int]] = [(float(second), int(count)) for second, count in told["applied"]]
    moves: list[tuple[float, str]] = [(float(second), words) for second, words in told["moves"]]
    low, high = applied[0][0], max(applied[-1][0], 0.1)
    least, most = applied[0][1], max(applied[-1][1], applied[0][1] + 1)

    def x(second: float) -> float:
        return LEFT + WIDE * (second - low) / (high - low)

    def y(samples: float) -> float:
        return TOP + HIGH * (1 - (samples - least) / (most - least))

    body = [text(LEFT, 24, TITLES[name], "head", "start")]
    body += [_stop(applied, x)] if name == "promotion" else []
    body += [f'<path fill="none" stroke="#2b6cb0" stroke-width="2" d="M{" ".join(_points(applied, x, y))}"/>']
    body += _axes(low, high, most - least, x, y, least)
    labels = [(0.0, told["what"]), *((second, words) for second, words in moves)]
    for number, (second, words) in enumerate(labels):
        at, line = x(second), TOP + HIGH + 44 + LINE * number
        body.append(f'<path stroke="#c05621" stroke-width="1" stroke-dasharray="2 3" d="M{at:.1f} {TOP}V{line - 4}"/>')
        side, gap = ("end", -6) if at > LEFT + 0.6 * WIDE else ("start", 6)
        body.append(text(at + gap, line, f"{second:.2f} s  {words}", "small", side))
    return svg(LEFT + WIDE + 30, TOP + HIGH + 60 + LINE * len(labels), TITLES[name], body)


Place = Callable[[float], float]


def _points(applied: list[tuple[float, int]], x: Place, y: Place) -> list[str]:
    return [f"{x(second):.1f},{y(samples):.1f}" for second, samples in applied]


def _stop(applied: list[tuple[float, int]], x: Place) -> str:
    """The longest time after the event without a batch, shaded and named."""
    moments = [now for (_, before), (now, count) in pairwise(applied) if count > before]
    start, end = max((pair for pair in pairwise(moments) if pair[1] > 0), key=lambda pair: pair[1] - pair[0])
    words = text(x(end) + 4, TOP + 14, f"{end - start:.2f} s without a batch", "small", "start")
    area = f'<rect x="{x(start):.1f}" y="{TOP}" width="{x(end) - x(start):.1f}" height="{HIGH}" fill="#fbd38d"/>'
    return area + words


def _axes(low: float, high: float, samples: int, x: Place, y: Place, least: int) -> list[str]:
    frame = f'<path fill="none" stroke="#8796a5" d="M{LEFT} {TOP}V{TOP + HIGH}H{LEFT + WIDE}"/>'
    seconds = range(int(low), int(high) + 1)
    ticks = [text(x(second), TOP + HIGH + 18, f"{second} s", "small") for second in seconds]
    counts = [
        text(LEFT - 6, y(least + samples * n // 4) + 4, f"{samples * n // 4:,}", "small", "end") for n in range(5)
    ]
    return [frame, *ticks, *counts, text(LEFT - 6, TOP - 12, "samples", "small", "end")]


if __name__ == "__main__":
    for name in TITLES:
        if (ROOT / "docs" / f"{name}.json").exists():
            Path(ROOT / "docs" / f"{name}.svg").write_text(moves_svg(name))
