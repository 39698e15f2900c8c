"""The frame of a picture and the texts in it: what every drawing here begins and ends with."""

from __future__ import annotations

from html import escape

from heterps.printing import printable

__all__ = ["INK", "label", "picture", "text"]

INK = "#1a202c"


def label(words: str) -> str:
    """Return a name as XML takes it: control characters written out, signs of XML escaped."""
    return escape(printable(words))


def text(
    x: float,
    y: float,
    words: str,
    colour: str = INK,
    anchor: str = "start",
    *,
    size: float = 12,
    bold: bool = False,
    extra: str = "",
) -> str:
    """Return a text at a point; ``extra`` are further attributes."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"{weight}{extra}>'
        f"{label(words)}</text>"
    )


def picture(width: float, height: float, body: str, background: str = "") -> str:
    """Return a self-contained SVG of a body."""
    page = f'<rect width="{width:.0f}" height="{height:.0f}" fill="{background}"/>' if background else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif">{page}{body}</svg>\n'
    )
