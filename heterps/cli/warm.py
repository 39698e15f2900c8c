"""``heterps warm``: compile the CPU loops ahead of time."""

from __future__ import annotations

import importlib
import time

import click
from rich.console import Console
from rich.table import Table

__all__ = ["command"]

PARTS = ("heterps.kernels.warm", "heterps.tables.warm", "heterps.data.warm")


@click.command("warm")
@click.option("--quiet", is_flag=True, help="Print the summary only.")
def command(quiet: bool) -> None:
    r"""Compile every CPU loop into numba's cache on disk, so that the next start is quick.

    Run it once after installation, or when building an image for workers. Nothing is compiled that is cached already.

    \b
    Examples:
      heterps warm
      NUMBA_CACHE_DIR=/opt/numba-cache heterps warm --quiet
    """
    console, start = Console(), time.perf_counter()
    table = Table("loop", "compiled now", "from the cache", title="CPU loops")
    compiled = cached = 0
    for part in PARTS:
        for done in importlib.import_module(part).warm():
            table.add_row(done.loop, str(done.compiled), str(done.cached))
            compiled, cached = compiled + done.compiled, cached + done.cached
    if not quiet:
        console.print(table)
    seconds = time.perf_counter() - start
    console.print(f"{compiled} loops compiled, {cached} read from the cache, in {seconds:.1f} s", highlight=False)
