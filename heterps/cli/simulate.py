"""``heterps simulate``: hunt for protocol bugs over many seeds."""

from __future__ import annotations

import sys
import time

import click
from rich.progress import Progress
from rich.table import Table

from heterps.screen import Screen
from heterps.simulator import Failure, Hunt, draw, hunt, shrink, simulate
from heterps.simulator.coverage import never_met, words_of_engines

__all__ = ["command"]


_ENOUGH = 20_000  # seeds that must meet every event, instruction and decision of an engine


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=1000, show_default=True, help="How many seeds to play.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@click.option("--seed", type=int, help="Play this seed alone and show its history.")
@click.option("--all", "everything", is_flag=True, help="Play also what the protocol knows and no engine does.")
def command(seeds: int, first: int, seed: int | None, everything: bool) -> None:
    r"""Play the protocol in worlds where messages get lost and workers die, one world per seed.

    Ends with exit code 1, the failing seed and its shrunken history if a batch was lost, counted twice or summed in
    another order, or if something waits for ever. From 20,000 seeds on also if an event, instruction or decision that
    engines use was never met.

    \b
    Examples:
      heterps simulate --seeds 20000
      heterps simulate --first 1000000 --seeds 100000
      heterps simulate --seed 4711
    """
    console = Screen()
    if seed is not None:
        sys.exit(_one(console, seed, everything))
    begin = time.perf_counter()
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("seeds", total=seeds)
        played = range(first, first + seeds)
        found = hunt(played, everything=everything, progress=lambda h: bar.update(task, completed=h.seeds))
    console.print(_table(found, time.perf_counter() - begin, everything))
    if found.failure is not None:
        console.print(str(found.failure), markup=False, highlight=False)
        sys.exit(1)
    if found.seeds >= _ENOUGH and (missing := never_met(found.met, everything)):
        console.print(
            f"no seed has met what {'the protocol knows' if everything else 'engines use'}: {', '.join(missing)}",
            markup=False,
            highlight=False,
        )
        sys.exit(1)


def _one(console: Screen, seed: int, everything: bool) -> int:
    """Show the history of one seed, shrunken if it fails."""
    scenario = draw(seed, everything)
    outcome = simulate(scenario, trace=True)
    if outcome.problem:
        small = shrink(scenario)
        text = str(Failure(seed, outcome.problem, small, simulate(small, trace=True)))
    else:
        text = "\n".join([str(scenario), *outcome.trace, "the promise was kept"])
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    return 1 if outcome.problem else 0


def _table(found: Hunt, seconds: float, everything: bool) -> Table:
    table = Table(title=f"{found.seeds} seeds, {found.steps} steps, {seconds:.1f} s", title_justify="left")
    table.add_column("what fired")
    table.add_column("times", justify="right")
    for kind, count in sorted(found.fired.items()):
        table.add_row(kind, str(count))
    table.add_section()
    for word in sorted(words_of_engines(everything)):
        table.add_row(word, str(found.met[word]))
    return table
