"""What numba compiled and what it took from its cache on disk, loop by loop."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

__all__ = ["Warmed", "accounts"]


class Warmed(NamedTuple):
    """How one loop came to be there: forms compiled just now, forms read from the cache on disk."""

    loop: str
    compiled: int
    cached: int


def accounts(package: str) -> tuple[Warmed, ...]:
    """Return what numba did for every loop of a package's modules."""
    modules = [module for name, module in sys.modules.items() if name.startswith(package)]
    loops: dict[str, Any] = {}
    for module in modules:
        for name, value in vars(module).items():
            if hasattr(value, "stats") and hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
                loops[f"{module.__name__.removeprefix('heterps.')}.{name}"] = value.stats
    return tuple(
        Warmed(name, sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
        for name, stats in sorted(loops.items())
        if stats.cache_misses or stats.cache_hits
    )
