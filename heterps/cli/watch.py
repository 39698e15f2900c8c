"""``heterps watch``: how trainings on a cluster go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from heterps.errors import ClusterError
from heterps.screen import Screen

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps watch tcp://127.0.0.1:8786                     until no training goes on any more
  heterps watch --forever                                of the cluster in DASK_SCHEDULER_ADDRESS
  heterps watch tcp://127.0.0.1:8786 --run ctr | tee log   one line a report
"""

Board = Mapping[str, Any]


@click.command(short_help="Show how trainings on a cluster go.", epilog=_EPILOG)
@click.argument("scheduler", required=False)
@click.option("--run", "name", metavar="NAME", help="Only trainings of this name [default: all].")
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Show how it is now and end.")
@click.option("--forever", is_flag=True, help="Go on when nothing is trained any more.")
def command(scheduler: str | None, name: str | None, every: float, once: bool, forever: bool) -> None:
    """Show trainings on the cluster at SCHEDULER: speed, loss, metrics, pools, queues, tables, cuts and what moved.

    In a terminal the picture moves; into a pipe goes one line for each report. Where nothing was trained yet it waits;
    it ends with the last training. The page /heterps of the scheduler shows the same in a browser.
    """
    # Here, so that `heterps --help` need not import Dask.
    from heterps.runtime.cluster.connect import client_of
    from heterps.runtime.cluster.notices import put_up_board, read_board

    if once and forever:
        raise ClusterError("--once and --forever are opposites: give one of them")
    with client_of(scheduler) as client:
        put_up_board(client)
        looks = _looks(lambda: _chosen(read_board(client), name), every, once, forever)
        console = Screen()
        _live(console, looks) if console.is_terminal and not once else _lines(console, looks)


def _chosen(board: Board, name: str | None) -> Board:
    return {**board, "runs": [run for run in board["runs"] if name is None or run["name"] == name]}


def _looks(look: Callable[[], Board], every: float, once: bool, forever: bool) -> Iterator[Board]:
    """Look until nothing is trained any more."""
    while True:
        board = look()
        yield board
        over = board["runs"] and all(run["state"] != "training" for run in board["runs"])
        if once or (over and not forever):
            return
        time.sleep(every)


def _lines(console: Screen, looks: Iterator[Board]) -> None:
    """Print a line for each report and each end, the oldest training first."""
    from heterps.runtime.report.board_screen import run_line

    told: dict[str, Any] = {}
    for board in looks:
        for run in reversed(board["runs"]):
            now = run["reports"], run["state"]
            if told.get(run["run"]) != now:
                told[run["run"]] = now
                _print(console, run_line(run))
        if not board["runs"] and "" not in told:
            told[""] = ()
            _print(console, "no run yet")


def _print(console: Screen, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True)
    console.file.flush()  # who reads a pipe reads each line when it is there


def _live(console: Screen, looks: Iterator[Board]) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from heterps.runtime.report.board_screen import board_screen

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for board in looks:
            live.update(Group(board_screen(board), Text(f"page: {board['page']}", style="dim")), refresh=True)
