"""Horizontal bars in groups, as SVG."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from xml.sax.saxutils import escape

LEFT, SCALE, HEIGHT = 170, 480, 20
Group = tuple[str, Sequence[tuple[str, float]]]


def bars(title: str, groups: Sequence[Group], ours: Collection[str]) -> str:
    """Return a picture; bars named in ``ours`` stand out."""
    top = max([1.0, *(share for _, shares in groups for _, share in shares)])
    lines = sum(1 + len(shares) for _, shares in groups) + 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + SCALE + 60}" height="{HEIGHT * lines}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="15">{escape(title)}</text>',
    ]
    y = HEIGHT
    for name, shares in groups:
        parts.append(f'<text x="8" y="{y + 15}" font-weight="bold">{escape(name)}</text>')
        for offset, (system, share) in enumerate(shares, start=1):
            parts += _bar(system, share, y + offset * HEIGHT, SCALE * share / top, system in ours)
        y += HEIGHT * (1 + len(shares))
    return "\n".join([*parts, "</svg>", ""])


def _bar(name: str, share: float, y: int, width: float, ours: bool) -> list[str]:
    colour = "#c2410c" if ours else "#64748b"
    return [
        f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{LEFT}" y="{y + 4}" width="{width:.1f}" height="{HEIGHT - 6}" fill="{colour}"/>',
        f'<text x="{LEFT + width + 6:.1f}" y="{y + 15}">{share:.2f}</text>',
    ]
