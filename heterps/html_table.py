"""What a notebook shows of a value: a caption and a table, as HTML that needs no style of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heterps.svg import label

__all__ = ["html_table"]

_CELL = "padding:2px 10px;text-align:left"


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], most: int = 60) -> str:
    """Return a table; of more than ``most`` rows the first ones, with the number of the others."""
    listed = [list(map(str, row)) for row in rows]
    head = "".join(f'<th style="{_CELL}">{label(name)}</th>' for name in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{label(cell)}</td>' for cell in row) + "</tr>" for row in listed[:most]
    )
    rest = f"<p>and {len(listed) - most} more</p>" if len(listed) > most else ""
    top = f"<thead><tr>{head}</tr></thead>" if headings else ""
    return f"<div><p><b>{label(caption)}</b></p><table>{top}<tbody>{body}</tbody></table>{rest}</div>"
