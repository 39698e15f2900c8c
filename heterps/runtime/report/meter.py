"""A progress bar around training."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from heterps.runtime.report.progress import Progress
from heterps.screen import Screen

__all__ = ["metered"]


def metered(reports: Iterator[Progress], console: Console | None = None) -> Iterator[Progress]:
    """Yield what ``reports`` yields while showing it.

    On a terminal one line moves; the end of each pass leaves a line behind. Elsewhere only those lines are printed.
    """
    console = console or Screen()
    with _bar(console) as bar:
        task, passes = bar.add_task("training", total=None), _Passes()
        told = ""
        for progress in reports:
            if progress.bad_row and not told:
                told = progress.bad_row
                console.print(f"bad rows are left out, such as {told}", highlight=False, soft_wrap=True)
            bar.update(task, description=str(progress), completed=progress.samples, total=passes.total(progress))
            if progress.epoch_done:
                console.print(str(progress), highlight=False, soft_wrap=True)
            yield progress


def _bar(console: Console) -> Bar:
    # A column of its own wraps where the terminal is narrow.
    text = TextColumn("{task.description}", markup=False, table_column=Column())
    columns = (SpinnerColumn(), text, BarColumn(20), TimeElapsedColumn())
    return Bar(*columns, console=console, transient=True, disable=not console.is_terminal)


class _Passes:
    """Guesses how many samples there will be: known, but for what was trained since, when a pass is seen to be over."""

    def __init__(self) -> None:
        self._epoch, self._per_pass = 1, 0.0

    def total(self, progress: Progress) -> float | None:
        if progress.epoch > self._epoch:
            self._epoch, self._per_pass = progress.epoch, progress.samples / (progress.epoch - 1)
        if progress.done:
            return progress.samples
        return max(progress.samples, self._per_pass * progress.epochs) if self._per_pass else None
