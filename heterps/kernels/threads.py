"""How many threads a matrix product may use.

Lanes that each run a batch of their own with one BLAS thread beat one batch on many threads (no barrier per product),
and Dask's nanny forces one thread through the environment anyway: so the number is set per process, by us.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["blas_info", "blas_threads", "set_blas_threads"]


@cache
def _controller() -> ThreadpoolController:
    """Scanning the loaded libraries takes milliseconds: once per process."""
    import scipy.linalg  # noqa: F401  (scipy brings an OpenBLAS of its own, which numba uses)

    return ThreadpoolController().select(user_api="blas")


def set_blas_threads(count: int) -> None:
    """Let every BLAS of this process use ``count`` threads from now on."""
    for library in _controller().lib_controllers:
        library.set_num_threads(count)


def blas_info() -> tuple[str, ...]:
    """Name, version and core type of each BLAS: bitwise repeatable results need these to agree between workers."""
    return tuple(
        sorted(f"{i['internal_api']} {i['version']} {i.get('architecture', '')}".strip() for i in _controller().info())
    )


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Use ``count`` BLAS threads within the ``with`` block (all threads of the process are affected)."""
    before = [(library, library.get_num_threads()) for library in _controller().lib_controllers]
    set_blas_threads(count)
    try:
        yield
    finally:
        for library, old in before:
            library.set_num_threads(old)
