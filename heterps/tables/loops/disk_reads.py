"""Rows read from a file, many in one call and without the interpreter lock.

Rows that lie near each other are read together, whole pages at a time, so that the file may be open for direct reads
(``O_DIRECT``), which go past the page cache: it would hold the same rows as the table's own memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from heterps.compiled import entry_loop

__all__ = ["PAGE", "read_rows"]

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

#: Words of a page: what direct reads begin and end with.
PAGE = 1024
#: Words between two rows that cost less to read than to ask for the second one again.
GAP = 2 * PAGE

#: The one of the C library: file, address, bytes, offset.
pread = types.ExternalFunction("pread", types.int64(types.int32, types.intp, types.intp, types.int64))


@entry_loop
def read_rows(file: int, address: int, memory: U32, stride: int, positions: I64, out: U32, at: I64) -> Any:
    """Read the rows at ascending positions, each to its row of ``out``; return how many were read before a failure.

    ``memory`` has whole pages at ``address``, which is that of a page, and room for one row and two pages at least.
    """
    i = 0
    while i < positions.size:
        start = positions[i] * stride // PAGE * PAGE
        end = (positions[i] + 1) * stride
        j = i + 1
        while j < positions.size and positions[j] * stride - end <= GAP:
            if (positions[j] + 1) * stride + PAGE - start > memory.size:
                break
            end = (positions[j] + 1) * stride
            j += 1
        stop = (end + PAGE - 1) // PAGE * PAGE
        if pread(np.int32(file), address, 4 * (stop - start), 4 * start) < 4 * (end - start):
            return i
        for k in range(i, j):
            source, to = np.uint64(positions[k] * stride - start), np.uint64(at[k] * stride)
            for word in range(np.uint64(stride)):
                out[to + word] = memory[source + word]
        i = j
    return i
