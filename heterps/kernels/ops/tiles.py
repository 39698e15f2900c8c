"""A few rows of a matrix product, whose result stays in registers until it is complete.

The columns of a tile are as many as registers hold of six rows: so nothing has to be laid out anew first, as libraries
do to work on large matrices piece by piece. Sums run in the order of the inner index, whatever tile a row falls into.
"""

from __future__ import annotations

from collections.abc import Callable
from platform import machine
from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "COLUMNS",
    "FUSES",
    "ROWS",
    "WIDE",
    "WIDTH",
    "row_narrow",
    "row_wide",
    "rows_narrow",
    "rows_wide",
    "turn_square",
]

ROWS = 6
#: Columns of a narrow tile, and whether there are registers for four times as many.
COLUMNS = 16
_FEATURES = binding.get_host_cpu_features()
WIDE = bool(_FEATURES.get("avx512f", False))
#: Columns of the widest tile.
WIDTH = 4 * COLUMNS if WIDE else COLUMNS
#: Whether a processor multiplies and adds in one step. Else each number would be a call of the C library.
FUSES = bool(_FEATURES.get("fma", False)) or machine() in ("aarch64", "arm64")

_REGISTER, _U64, _U32 = ir.VectorType(ir.FloatType(), COLUMNS), ir.IntType(64), ir.IntType(32)
_PLACE = (types.uint64, types.uint64)


def _tile(rows: int, registers: int) -> Callable[..., Any]:
    """Return ``y[r, j] = sum of x[r, k] * w[k, j]`` over ``n`` values of k; with ``more`` added to what ``y`` has.

    Of each array a place is told, and how far it is from a row to the next; of ``x`` also from one k to the next.
    """

    @intrinsic  # type: ignore[untyped-decorator,unused-ignore]
    def tile(typing_context, x, x0, xr, xk, w, w0, wk, y, y0, yr, n, more):  # type: ignore[no-untyped-def]
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            xs, ws, ys = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 4, 7))
            x0, xr, xk, w0, wk, y0, yr = (args[i] for i in (1, 2, 3, 5, 6, 8, 9))
            fused = ir.FunctionType(_REGISTER, [_REGISTER] * 3)
            fma = cgutils.get_or_insert_function(builder.module, fused, f"llvm.fma.v{COLUMNS}f32")
            spots = [(r, v) for r in range(rows) for v in range(registers)]
            nothing, first = ir.Constant(_REGISTER, None), ir.Constant(ir.VectorType(_U32, COLUMNS), [0] * COLUMNS)
            sums = {spot: cgutils.alloca_once_value(builder, nothing) for spot in spots}

            def at(base: Any, start: Any, step: Any, count: Any, register: int = 0) -> Any:
                place = builder.add(start, builder.add(builder.mul(step, count), _U64(COLUMNS * register)))
                return builder.gep(base, [place])

            def vector(spot: Any) -> Any:
                return builder.bitcast(spot, _REGISTER.as_pointer())

            with builder.if_then(args[11]):
                for r, v in spots:
                    builder.store(builder.load(vector(at(ys, y0, yr, _U64(r), v)), align=4), sums[r, v])
            with cgutils.for_range(builder, args[10]) as inner:
                k = inner.index
                right = [builder.load(vector(at(ws, w0, wk, k, v)), align=4) for v in range(registers)]
                column = builder.add(x0, builder.mul(xk, k))
                for r in range(rows):
                    one = builder.insert_element(nothing, builder.load(at(xs, column, xr, _U64(r))), _U32(0))
                    left = builder.shuffle_vector(one, nothing, first)
                    for v in range(registers):
                        builder.store(builder.call(fma, [left, right[v], builder.load(sums[r, v])]), sums[r, v])
            for r, v in spots:
                builder.store(builder.load(sums[r, v]), vector(at(ys, y0, yr, _U64(r), v)), align=4)
            return context.get_dummy_value()

        return types.void(x, *_PLACE, types.uint64, w, *_PLACE, y, *_PLACE, types.uint64, types.boolean), emit

    return tile  # type: ignore[no-any-return]


rows_wide, row_wide = _tile(ROWS, WIDTH // COLUMNS), _tile(1, WIDTH // COLUMNS)
rows_narrow, row_narrow = _tile(ROWS, 1), _tile(1, 1)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def turn_square(typing_context: Any, x: Any, x0: Any, xr: Any, y: Any, y0: Any, yr: Any) -> Any:
    """``y[j, i] = x[i, j]`` for as many rows as a narrow tile has columns: halves change places, then their halves."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        xs, ys = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 3))

        def at(base: Any, start: Any, step: Any, row: int) -> Any:
            place = builder.gep(base, [builder.add(start, builder.mul(step, _U64(row)))])
            return builder.bitcast(place, _REGISTER.as_pointer())

        rows = [builder.load(at(xs, args[1], args[2], r), align=4) for r in range(COLUMNS)]
        half = COLUMNS // 2
        while half:
            upper = [j - half + COLUMNS if j & half else j for j in range(COLUMNS)]
            lower = [j + COLUMNS if j & half else j + half for j in range(COLUMNS)]
            masks = [ir.Constant(ir.VectorType(_U32, COLUMNS), places) for places in (upper, lower)]
            for r in (r for r in range(COLUMNS) if not r & half):
                pair = rows[r], rows[r + half]
                rows[r], rows[r + half] = (builder.shuffle_vector(*pair, mask) for mask in masks)
            half //= 2
        for r, row in enumerate(rows):
            builder.store(row, at(ys, args[4], args[5], r), align=4)
        return context.get_dummy_value()

    return types.void(x, *_PLACE, y, *_PLACE), emit
