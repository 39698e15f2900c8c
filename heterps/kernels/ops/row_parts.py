"""Rows shared out among as many threads as a call of BLAS may have: who computes one batch at a time gives it cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from heterps.device.arrays import Array

__all__ = ["over_rows", "product_threads"]


@cache
def _library() -> Any:
    """NumPy's BLAS, which is loaded before any other; None if there is none that can be asked."""
    found = (library for library in ThreadpoolController().lib_controllers if library.user_api == "blas")
    return next(found, None)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="heterps-products")


def product_threads() -> int:
    """Return how many threads a product may have."""
    library = _library()
    return 1 if library is None else max(1, library.num_threads or 1)


def over_rows(run: Callable[..., None], step: int, *arrays: Array) -> None:
    """Call ``run`` with the rows of all arrays, or with some multiple of ``step`` of them in each thread."""
    threads = product_threads()
    if threads == 1:
        run(*arrays)
        return
    rows = len(arrays[0])
    size = max(1, -(-rows // (threads * step))) * step
    parts = [slice(first, first + size) for first in range(0, rows, size)]
    list(_pool(threads).map(lambda part: run(*(array[part] for array in arrays)), parts))
