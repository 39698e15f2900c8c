"""Dot products of all pairs of a sample's vectors as one small matrix product in registers.

A sample's matrices are laid out in memory that stays in the first-level cache. The last tiles overlap those before
where they do not fit: they are the same numbers.
"""

from __future__ import annotations

import numpy as np

from heterps.device.arrays import Array
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call
from heterps.kernels.ops.pointwise import flat_rows
from heterps.kernels.ops.tiles import COLUMNS, FUSES, ROWS, rows_narrow, turn_square
from heterps.lanes import copy_row

__all__ = ["fits_tiles", "tiled_pairs"]

_LEAST = 4096  # numbers, so that memory for them begins where a line of the cache does


@loop
def dots_in_tiles(z, z_stride, room, y, y_stride, n, fields, dim):  # type: ignore[no-untyped-def]
    """Dot products of pairs (1,0), (2,0), (2,1), ...; of ``z`` and ``y`` samples lie apart."""
    deep, tall, one, whole = np.uint64(dim), np.uint64(COLUMNS), np.uint64(1), -(-fields // COLUMNS) * COLUMNS
    dots, wide = whole * dim, np.uint64(whole)  # in the room, behind the vectors turned round
    for b in range(n):
        start, pair = b * z_stride, b * y_stride
        for j in range(0, fields, COLUMNS):
            for d in range(0, dim, COLUMNS):
                at = np.uint64(start + min(j, fields - COLUMNS) * dim + d)
                turn_square(z, at, deep, room, np.uint64(j * dim + d * COLUMNS), tall)
        for i in range(0, fields, ROWS):
            i = min(i, fields - ROWS)
            for j in range(0, i + ROWS - 1, COLUMNS):
                at, to = np.uint64(start + i * dim), np.uint64(dots + i * whole + j)
                rows_narrow(z, at, deep, one, room, np.uint64(j * dim), tall, room, to, wide, deep, False)
        for i in range(1, fields):
            for j in range(0, i, COLUMNS):  # whole registers: what is too much is written over, but for the last
                first = min(j, fields - COLUMNS)
                length = min(i - first, COLUMNS) if i == fields - 1 else COLUMNS
                copy_row(room, np.uint64(dots + i * whole + j), y, np.uint64(pair + first), np.uint64(length))
            pair += i


def fits_tiles(c: Call, z: Array) -> bool:
    """Whether vectors ``[n, fields, dim]`` are multiplied here: there are enough, of one register or two.

    With longer ones a dot product at a time is as fast.
    """
    _, fields, dim = z.shape
    return FUSES and c.loops and fields >= COLUMNS and dim in (COLUMNS, 2 * COLUMNS) and z.dtype == np.float32


def tiled_pairs(c: Call, z: Array) -> None:
    """Write the dot products of all pairs."""
    _, fields, dim = z.shape
    whole = -(-fields // COLUMNS) * COLUMNS
    room = c.scratch("pairs", (max(_LEAST, whole * (dim + fields)),), z.dtype)
    dots_in_tiles(*flat_rows(z), room, *flat_rows(c.y), *z.shape)
