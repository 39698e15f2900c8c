"""What is printed for people. Names come from users and files, so nothing in a text is taken for an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heterps.printing import printable

__all__ = ["Screen", "listed"]

# A row of a rich table takes more than a millisecond: beyond this many, columns are set by ourselves.
_LONG = 200
_WIDEST = 60
_LISTED = 24


class Screen(Console):
    """A rich console for which brackets are brackets and ``:smile:`` is a word.

    Parameters
    ----------
    work_matters
        Whether the command goes on, in silence, when nobody reads what it prints any more (``| head -1``); by default
        it ends, as there is nothing else to it.
    options
        Those of :class:`rich.console.Console`.
    """

    def __init__(self, work_matters: bool = False, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
        self._work_matters = work_matters

    def on_broken_pipe(self) -> None:
        """Print nothing more; end the command unless its work matters."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            if not self._work_matters:
                raise

    def render_str(self, text: str, **options: Any) -> Text:
        """Make printable what becomes a rich text; everything that is printed as a string comes this way."""
        return super().render_str(printable(text), **options)

    def table(
        self,
        title: str,
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[str] = (),
        plain: bool = False,
    ) -> None:
        """Print a table with its title; columns named in ``right`` are set to the right, ``plain`` has no frame."""
        if plain or len(rows) > _LONG:
            self.file.write(_plain(title, headings, rows, right) + "\n")
            return
        table = Table(title=title, title_justify="left")
        for heading in headings:
            table.add_column(heading, justify="right" if heading in right else "left")
        for row in rows:
            table.add_row(*row)
        self.print(table)


def listed(names: Sequence[str]) -> str:
    """Return names with commas between; the first of very many."""
    rest = f", and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + rest


def _plain(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> str:
    """Columns as wide as their longest text, within reason, and the last as long as it is."""
    lines = [[printable(cell).replace("\n", " ") for cell in row] for row in (headings, *rows)]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*lines, strict=True)]
    aligned = (
        "  ".join(
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(line, widths, headings, strict=True)
        ).rstrip()
        for line in lines
    )
    return "\n".join((printable(title), *aligned))
