"""Compiled CPU loops: one decorator, one list of all of them.

Loops take C-contiguous arrays only (rows that lie apart are passed as a flat array and a row stride), so each loop has
one compiled form per float type and the disk cache stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["LOOPS", "loop"]

LOOPS: dict[str, Any] = {}  # every compiled loop of the package by "module.name"


def loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the interpreter lock, cached on disk; order of additions is as written (bitwise repeatable)."""
    compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})(function)
    LOOPS[f"{function.__module__}.{function.__name__}"] = compiled
    return compiled  # type: ignore[no-any-return]
