"""Compiled CPU loops: one decorator, one list of all of them.

Loops take C-contiguous arrays only (rows that lie apart are passed as a flat array and a row stride), so each loop has
one compiled form per float type and the disk cache stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit

__all__ = ["LOOPS", "loop", "reassociating_loop", "unlocked"]

LOOPS: dict[str, Any] = {}  # every compiled loop of the package by "module.name"


class _Address:
    """The memory of an array, told through NumPy's array interface."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__, self._keep = interface, array


def unlocked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only array (a received message, say) under a type that compiled loops know.

    numba compiles loops once more for read-only arguments. Loops never write to what they are fed, so the same memory
    is shown to them without the lock.
    """
    return np.asarray(_Address(array))


def loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the interpreter lock, cached on disk; additions happen in the order written."""
    return _compiled(function, {"contract"})


def reassociating_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like :func:`loop`, but a sum may be split over vector lanes.

    The split is fixed when the loop is compiled: bits still repeat on one type of CPU, but differ from plain NumPy's.
    """
    return _compiled(function, {"contract", "reassoc"})


def _compiled(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    # numpy's error model: division by zero gives inf, and so a check per element does not stop vectorisation.
    compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath=fastmath)(function)
    LOOPS[f"{function.__module__}.{function.__name__}"] = compiled
    return compiled  # type: ignore[no-any-return]
