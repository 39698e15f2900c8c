"""Loops around rules from outside the package: the built-in ones, compiled anew with another ``update_rows`` inside."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from heterps.compiled import njit
from heterps.errors import TableError
from heterps.tables.loops.update import update_rows
from heterps.tables.loops.vector_lanes import bound
from heterps.tables.specs.rules import Rule

__all__ = ["rebuilt_around"]

_BUILT: dict[tuple[Any, ...], Any] = {}


def rebuilt_around(rules: tuple[Rule, ...], loop: Any, *inner: Any) -> Any:
    """Return ``loop``, which calls ``inner`` functions that call ``update_rows``, for rules of which one is foreign."""
    kind = _foreign_kind(rules)
    if (kind, loop) not in _BUILT:
        names = {"update_rows": _update(kind)}
        for function in inner:
            names[function.__name__] = _with_names(function, names)
        _BUILT[kind, loop] = _with_names(loop, names)
    return _BUILT[kind, loop]


def _foreign_kind(rules: tuple[Rule, ...]) -> type[Rule]:
    kinds = {type(rule) for rule in rules if rule.code < 0}
    if len(kinds) > 1:
        names = sorted(kind.__name__ for kind in kinds)
        raise TableError(f"one group can have one rule from outside the package beside built-in ones, got {names}")
    kind = kinds.pop()
    if kind.loop is None:
        raise TableError(f"rule {kind.__name__} has neither a built-in code nor a loop of its own")
    return kind


def _update(kind: type[Rule]) -> Any:
    loop = kind.loop

    @njit(nogil=True)
    def update(code, p, k, w, ws, s, ss, g, gs, scales, m, n):  # type: ignore[no-untyped-def]
        if code >= 0:
            update_rows(code, p, k, w, ws, s, ss, g, gs, scales, m, n)
        else:
            for j in range(m):
                loop(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])
                for i in range(n):
                    w[ws[j] + i] = bound(p[k, 0], p[k, 1], w[ws[j] + i])

    return update


def _with_names(function: Any, names: dict[str, Any]) -> Any:
    """Compile a function again with some of its global names meaning something else."""
    source = function.py_func
    return njit(nogil=True)(FunctionType(source.__code__, {**source.__globals__, **names}, source.__name__))
