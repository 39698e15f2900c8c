"""The split graph as a picture: Layers as boxes in columns by side, tensors as lines, the bytes that cross as text."""

from __future__ import annotations

from collections.abc import Sequence

from heterps.stages.layers import Bound, Edge, Layer
from heterps.stages.partition import Partition
from heterps.svg import label, picture, text

__all__ = ["draw"]

BOX_W, BOX_H, GAP_X, GAP_Y, MARGIN, HEADER = 230, 54, 130, 30, 28, 84
FILL = {Bound.IO: "#e6f1fb", Bound.COMPUTE: "#fdeede"}
LINE = {Bound.IO: "#2b6cb0", Bound.COMPUTE: "#c05621"}
FAINT = "#4a5568"
SIDE = {"cpu": "CPU workers", "gpu": "compute workers"}


def draw(split: Partition, title: str = "") -> str:
    """Return a self-contained SVG of a partition."""
    columns = _columns(split)
    spots = _spots(columns)
    height = HEADER + max(len(c) for c in columns) * (BOX_H + GAP_Y) + MARGIN
    width = 2 * MARGIN + len(columns) * BOX_W + (len(columns) - 1) * GAP_X
    body = [_panel(i, part.side, height) for i, part in enumerate(split.parts)]
    named: set[str] = set()
    for edge in split.layers.edges:
        body.append(_line(split, edge, spots, named=edge.tensor not in named))
        named.add(edge.tensor)
    body += [_box(layer, *spots[i]) for i, layer in enumerate(split.layers.layers)]
    crossing = f"{split.crossing_bytes / split.layers.batch_size:,.0f} B a sample cross, both directions"
    head = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#718096"/></marker></defs>'
    ) + text(MARGIN, 32, title, size=18, bold=True)
    head += text(width - MARGIN, 32, crossing, FAINT, "end")
    return picture(width, height, head + "".join(body), "white")


def _columns(split: Partition) -> list[list[int]]:
    place = {layer.name: i for i, layer in enumerate(split.layers.layers)}
    return [[place[name] for name in part.layers] for part in split.parts]


def _spots(columns: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    return {
        i: (MARGIN + c * (BOX_W + GAP_X), HEADER + r * (BOX_H + GAP_Y))
        for c, column in enumerate(columns)
        for r, i in enumerate(column)
    }


def _panel(column: int, side: str, height: int) -> str:
    x = MARGIN + column * (BOX_W + GAP_X) - 14
    return (
        f'<rect x="{x}" y="48" width="{BOX_W + 28}" height="{height - 60}" rx="10" fill="#f7fafc" stroke="#e2e8f0"/>'
    ) + text(x + 14, 70, SIDE.get(side, side), FAINT, size=13, bold=True)


def _box(layer: Layer, x: int, y: int) -> str:
    detail = _flops(layer.cost.flops) if layer.cost.flops else layer.reason
    ops = f"{len(layer.ops)} ops · " if len(layer.ops) > 1 else ""
    return (
        f"<g><title>{label(', '.join(layer.ops))}: {label(layer.reason)}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{FILL[layer.bound]}" '
        f'stroke="{LINE[layer.bound]}" stroke-width="1.3"/>'
        + text(x + 12, y + 22, layer.name, size=14, bold=True)
        + text(x + 12, y + 41, (ops + detail)[:40], FAINT, size=11)
        + "</g>"
    )


def _line(split: Partition, edge: Edge, spots: dict[int, tuple[int, int]], named: bool) -> str:
    """Draw a tensor's way; one that several Layers read is named once, as it crosses once."""
    (x1, y1), (x2, y2) = spots[edge.source], spots[edge.target]
    per_sample = (edge.forward_bytes + edge.backward_bytes) / split.layers.batch_size
    if x1 != x2:
        a, b = (x1 + BOX_W, y1 + BOX_H / 2), (x2 - 1, y2 + BOX_H / 2)
        bend = (b[0] - a[0]) / 2
        path = f"M{a[0]} {a[1]} C{a[0] + bend} {a[1]} {b[0] - bend} {b[1]} {b[0]} {b[1]}"
        if not named:
            return _stroke(path, True)
        halo = ' paint-order="stroke" stroke="#ffffff" stroke-width="3"'
        words = f"{edge.tensor}: {per_sample:,.0f} B"
        beside = 17 if y1 < y2 else -7  # on the side that the line does not come from
        return _stroke(path, True) + text(b[0] - 8, b[1] + beside, words, FAINT, "end", size=10.5, extra=halo)
    if y2 - y1 == BOX_H + GAP_Y:
        return _stroke(f"M{x1 + BOX_W / 2} {y1 + BOX_H} L{x2 + BOX_W / 2} {y2 - 1}", False)
    bulge, right = x1 + BOX_W + 36, x1 + BOX_W
    middle = y1 + BOX_H / 2, y2 + BOX_H / 2
    return _stroke(f"M{right} {middle[0]} C{bulge} {middle[0]} {bulge} {middle[1]} {right + 1} {middle[1]}", False)


def _stroke(path: str, crossing: bool) -> str:
    style = 'stroke="#2d3748" stroke-width="1.8"' if crossing else 'stroke="#a0aec0" stroke-width="1.2"'
    return f'<path d="{path}" fill="none" {style} marker-end="url(#tip)"/>'


def _flops(flops: float) -> str:
    return f"{flops / 1e9:,.1f} GFLOP a batch" if flops >= 1e9 else f"{flops / 1e6:,.1f} MFLOP a batch"
