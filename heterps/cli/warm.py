"""``heterps warm``: compile the CPU loops ahead of time."""

from __future__ import annotations

import importlib
import time

import click
from rich.table import Table

from heterps.screen import Screen

__all__ = ["command"]

PARTS = ("heterps.kernels.warm", "heterps.tables.warm", "heterps.data.warm")


@click.command("warm")
@click.option("--quiet", is_flag=True, help="Print no table of loops.")
def command(quiet: bool) -> None:
    r"""Compile every CPU loop into numba's cache on disk, so that the next start is quick.

    Run it once after installation, or when building an image for workers: it takes about half a minute of one core, and
    says what was compiled and how long it took. Nothing is compiled that is cached already.

    \b
    Examples:
      heterps warm
      NUMBA_CACHE_DIR=/opt/numba-cache heterps warm --quiet
    """
    console, start = Screen(), time.perf_counter()
    table = Table("loop", "compiled now", "from the cache", title="CPU loops")
    compiled = cached = 0
    for part in PARTS:
        begun, loops = time.perf_counter(), importlib.import_module(part).warm()
        for done in loops:
            table.add_row(done.loop, str(done.compiled), str(done.cached))
        new, known = sum(done.compiled for done in loops), sum(done.cached for done in loops)
        compiled, cached = compiled + new, cached + known
        what = f"{new} loops compiled, {known} read from the cache, in {time.perf_counter() - begun:.1f} s"
        console.print(f"{part.removesuffix('.warm')}: {what}", highlight=False)
    if not quiet:
        console.print(table)
    seconds = time.perf_counter() - start
    console.print(f"{compiled} loops compiled, {cached} read from the cache, in {seconds:.1f} s", highlight=False)
