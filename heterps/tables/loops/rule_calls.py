"""A rule over a block of rows, called by its address: a rule is compiled when a table has it, and no other with it.

What calls is compiled once for all rules, those from outside the package too. One call takes a block of rows, because a
call with this many arrays costs more than the update of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from heterps.compiled import inner_loop, njit
from heterps.errors import TableError
from heterps.tables.loops.update import BUILT_IN
from heterps.tables.loops.vector_lanes import bound
from heterps.tables.specs.rules import Rule

__all__ = ["address_of", "call_rule", "check_rules"]

_F32, _U64 = types.float32[::1], types.uint64[::1]
#: Of a block's loop: numbers ``p[k]``; flat arrays of values, slots and gradients, each with where row ``j`` begins in
#: it; shows behind each gradient; how many rows, and values of each.
_ARGUMENTS = (
    types.float32[:, ::1],
    types.int64,
    *(_F32, _U64, _F32, _U64, _F32, _U64),
    _F32,
    types.int64,
    types.uint64,
)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def call_rule(typing_context, address, p, k, w, ws, s, ss, g, gs, scales, m, n):  # type: ignore[no-untyped-def]
    """Call the block's loop of a rule at an address."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.call_conv.get_function_type(types.none, _ARGUMENTS)
        loop = builder.inttoptr(args[0], kind.as_pointer())
        status, _ = context.call_conv.call_function(builder, loop, types.none, _ARGUMENTS, args[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(types.uint64, *_ARGUMENTS), emit


def _block(p, k, w, ws, s, ss, g, gs, scales, m, n):  # type: ignore[no-untyped-def]
    for j in range(m):
        rule(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])  # type: ignore[name-defined]  # noqa: F821


def _bounded_block(p, k, w, ws, s, ss, g, gs, scales, m, n):  # type: ignore[no-untyped-def]
    for j in range(m):
        rule(p, k, w, ws[j], s, ss[j], g, gs[j], n, scales[j])  # type: ignore[name-defined]  # noqa: F821
        for i in range(n):
            w[ws[j] + i] = bound(p[k, 0], p[k, 1], w[ws[j] + i])


def _around(rule: Any, block: Any, decorate: Callable[..., Any]) -> Any:
    """Compile a block's loop with a rule inside. It is no closure: numba's cache does not know what those hold."""
    function = FunctionType(block.__code__, {**globals(), "rule": rule}, f"update_{rule.__name__}")
    function.__qualname__ = function.__name__
    return decorate(function)


def check_rules(rules: Iterable[Rule]) -> None:
    """Refuse a rule that has no loop."""
    for rule in rules:
        if rule.code < 0 and rule.loop is None:
            raise TableError(f"rule {type(rule).__name__} has neither a built-in code nor a loop of its own")


@cache
def _loop_of(kind: Any) -> Any:
    if kind.code >= 0:
        return _around(BUILT_IN[kind.code], _block, inner_loop)
    return _around(kind.loop, _bounded_block, njit(nogil=True))


def address_of(rule: Rule) -> int:
    """Return where the block's loop of a rule is in this process, compiled or read from the cache if need be."""
    kind: Any = type(rule)
    loop = _loop_of(kind)
    loop.compile(_ARGUMENTS)
    made = loop.overloads[_ARGUMENTS]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
