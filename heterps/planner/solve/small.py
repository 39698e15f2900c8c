"""Small problems are solved by loops as they were written: they take less time than compiled ones take to be loaded."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from heterps.planner.solve.problem import Problem

__all__ = ["is_small", "suited"]

#: Pairs of states, times types, up to which a pass over all of them takes milliseconds as it was written.
_FEW = 1024


def is_small(problem: Problem) -> bool:
    """Whether all stages of a problem are looked at sooner than anything else is."""
    return problem.states**2 * problem.types <= _FEW and not problem.mixes.size


def suited(loop: Any, problem: Problem) -> Any:
    """Return a loop in the form that suits a problem: compiled, or as it was written."""
    return _in_python(loop) if is_small(problem) and hasattr(loop, "py_func") else loop


@cache
def _in_python(loop: Any) -> Any:
    return np.errstate(all="ignore")(_as_written(loop))  # as in what is compiled: infinities are no mistakes


@cache
def _as_written(loop: Any) -> Any:
    """Return the Python function of a loop, calling those of the loops that it calls."""
    source: FunctionType = loop.py_func
    used = {name: source.__globals__[name] for name in source.__code__.co_names if name in source.__globals__}
    called = {name: _as_written(one) for name, one in used.items() if hasattr(one, "py_func")}
    return FunctionType(source.__code__, {**source.__globals__, **called}, source.__name__)
