"""Whether a stage's batches can fit on a device: said before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heterps.errors import HardwareError
from heterps.graph import Form, Graph
from heterps.kernels.program.memory import program_bytes
from heterps.kernels.program.steps import scope_of
from heterps.runtime.config import settings

__all__ = ["check_memory", "fitting_batches", "least_bytes", "rows_bytes"]

_FREE_SHARE = 2  # of what is free on a device rows may take half: programs come later


def least_bytes(graph: Graph, ops: Sequence[str], batch_size: int) -> int:
    """Return what one batch takes on a device at the least: a program, and the columns and indices it is fed."""
    fed = 0
    for name in scope_of(graph, ops).feeds:
        sources = graph[name].inputs if graph[name].kind == "pull" else (name,)
        for type_ in (graph[source].type for source in sources):
            size = 4 if graph[name].kind == "pull" else np.dtype(type_.dtype).itemsize
            fed += 0 if type_.form is Form.RAGGED else batch_size * math.prod(type_.shape) * size
    return program_bytes(graph, ops, batch_size) + fed


def fitting_batches(graph: Graph, ops: Sequence[str], batch_size: int, free_bytes: int | None, most: int) -> int:
    """Return how many batches may be on the device at once, each with a program: one at least, ``most`` at most."""
    return most if free_bytes is None else max(1, min(most, free_bytes // least_bytes(graph, ops, batch_size)))


def check_memory(
    graph: Graph, ops: Sequence[str], batch_size: int, free_bytes: int | None, device: str, threads: int = 1
) -> None:
    """Refuse batches that cannot fit, with the size that might; so many threads train at once, each with a program.

    Raises
    ------
    HardwareError
        Where even the least is more than the device has free.
    """
    if free_bytes is None or threads * least_bytes(graph, ops, batch_size) <= free_bytes:
        return
    needs = threads * least_bytes(graph, ops, batch_size)
    low, high = 0, batch_size  # fits (nothing does), does not fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if threads * least_bytes(graph, ops, middle) <= free_bytes else (low, middle)
    way = f"batches of {low:,} rows may fit" if low else "not even one row fits: cut the model into more stages"
    lanes = f" for {threads} lanes of one worker" if threads > 1 else ""
    raise HardwareError(
        f"batches of {batch_size:,} rows need at least {needs / 2**20:,.1f} MiB{lanes} on {device}, which has "
        f"{free_bytes / 2**20:,.1f} MiB free; {way}"
    )


def rows_bytes(free: int | None) -> int | None:
    """Return what rows of tables may take of a device's free memory; None: as they come, where it does not say."""
    given = settings().gpu_rows_bytes
    return given if given is not None or free is None else free // _FREE_SHARE
