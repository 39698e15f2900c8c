"""``heterps warm``: compile the CPU loops ahead of time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import click
from rich.table import Table

from heterps.compiled import Warmed
from heterps.errors import RunError
from heterps.screen import Screen

__all__ = ["command"]

PARTS = ("heterps.tables.warm", "heterps.kernels.warm", "heterps.data.warm")
_TELL = "import importlib, json, sys; print(json.dumps(importlib.import_module(sys.argv[1]).warm()))"


@click.command("warm")
@click.option("--quiet", is_flag=True, help="Print no table of loops.")
def command(quiet: bool) -> None:
    r"""Compile every CPU loop into numba's cache on disk, so that the next start is quick.

    Run it once after installation, or when building an image for workers: it takes about half a minute, on up to three
    cores, and says what was compiled and how long it took. Nothing is compiled that is cached already.

    \b
    Examples:
      heterps warm
      NUMBA_CACHE_DIR=/opt/numba-cache heterps warm --quiet
    """
    console, start = Screen(), time.perf_counter()
    table = Table("loop", "compiled now", "from the cache", title="CPU loops")
    compiled = cached = 0
    with ThreadPoolExecutor(len(PARTS)) as pool:
        for part, loops in zip(PARTS, pool.map(_warmed, PARTS), strict=True):
            for done in loops:
                table.add_row(done.loop, str(done.compiled), str(done.cached))
            new, known = sum(done.compiled for done in loops), sum(done.cached for done in loops)
            compiled, cached = compiled + new, cached + known
            what = f"{new} loops compiled, {known} read from the cache, after {time.perf_counter() - start:.1f} s"
            console.print(f"{part.removesuffix('.warm')}: {what}", highlight=False)
    if not quiet:
        console.print(table)
    seconds = time.perf_counter() - start
    console.print(f"{compiled} loops compiled, {cached} read from the cache, in {seconds:.1f} s", highlight=False)


def _warmed(part: str) -> list[Warmed]:
    """Compile a part in a process of its own: numba compiles one loop at a time."""
    done = subprocess.run([sys.executable, "-c", _TELL, part], capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2] or f"its process ended with {done.returncode}"
        raise RunError(f"the loops of {part.removesuffix('.warm')} could not be compiled: {why}")
    return [Warmed(*loop) for loop in json.loads(done.stdout)]
