"""A progress bar around training."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from heterps.runtime.progress import Progress

__all__ = ["metered"]


def metered(reports: Iterator[Progress], console: Console | None = None) -> Iterator[Progress]:
    """Yield what ``reports`` yields while showing it.

    On a terminal one line moves; the end of each pass leaves a line behind. Elsewhere only those lines are printed.
    """
    console = console or Console()
    with _bar(console) as bar:
        task = bar.add_task("training", total=None)
        for progress in reports:
            _show(bar, task, progress)
            if progress.valid or progress.done:
                console.print(str(progress), highlight=False, soft_wrap=True)
            yield progress


def _bar(console: Console) -> Bar:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
    return Bar(*columns, console=console, transient=True, disable=not console.is_terminal)


def _show(bar: Bar, task: TaskID, progress: Progress) -> None:
    # The number of samples in a pass is known once one pass is over.
    per_pass = progress.samples / (progress.epoch - 1) if progress.epoch > 1 else None
    total = per_pass * progress.epochs if per_pass else None
    bar.update(task, description=str(progress), completed=progress.samples, total=total)
