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

__all__ = ["CONTROL", "GAP", "PAGE", "SECTOR", "read_rows", "read_scattered"]

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

#: Words of a page: what direct reads begin and end with. Of a sector: what they may on most disks.
PAGE, SECTOR = 1024, 128
#: Words between two rows that cost less to read than to ask for the second one again.
GAP = 2 * PAGE

#: The one of the C library: file, address, bytes, offset.
pread = types.ExternalFunction("pread", types.int64(types.int32, types.intp, types.intp, types.int64))
#: The one of the C library: number of a system call, and what it takes.
syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 6))

#: Words of 64 bits for each read in flight: what is asked (8) and where that stands, what comes (4), the first of its
#: positions and their number, and a place in the list of reads that are free.
CONTROL = 16


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


@entry_loop
def read_scattered(
    queue: int,
    submit: int,
    await_: int,
    file: int,
    address: int,
    memory: U32,
    depth: int,
    place: int,
    control: I64,
    unit: int,
    stride: int,
    positions: I64,
    out: U32,
    at: I64,
) -> Any:
    """Do what :func:`read_rows` does with ``depth`` reads in flight, through a queue of the kernel (Linux AIO).

    Reads begin and end with units, of so many words. ``memory`` is divided among the reads; ``control`` stands at
    ``place``. Whatever fails, none is left in flight.
    """
    asked, came, firsts, counts, free = 8 * depth, 9 * depth, 13 * depth, 14 * depth, 15 * depth
    room = memory.size // depth // unit * unit
    for slot in range(depth):
        control[free + slot] = slot
    idle, flying, i, failed = depth, 0, 0, positions.size
    while True:
        n = 0
        while idle > 0 and i < failed:
            start = positions[i] * stride // unit * unit
            end = (positions[i] + 1) * stride
            j = i + 1
            while j < positions.size and positions[j] * stride - end <= GAP:
                if (positions[j] + 1) * stride + unit - start > room:
                    break
                end = (positions[j] + 1) * stride
                j += 1
            idle -= 1
            slot = control[free + idle]
            words = 8 * slot
            control[words : words + 8] = 0
            control[words], control[words + 2] = slot, np.int64(file) << 32
            control[words + 3] = address + 4 * room * slot
            control[words + 4], control[words + 5] = 4 * ((end + unit - 1) // unit * unit - start), 4 * start
            control[asked + n] = place + 8 * words
            control[firsts + slot], control[counts + slot] = i, j - i
            n, i = n + 1, j
        taken = 0
        while taken < n:
            more = syscall(submit, queue, n - taken, place + 8 * (asked + taken), 0, 0)
            if more <= 0:  # what was not taken is as if it had failed
                for k in range(taken, n):
                    slot = (control[asked + k] - place) // 64
                    failed = min(failed, control[firsts + slot])
                    control[free + idle] = slot
                    idle += 1
                break
            taken += more
        flying += taken
        if flying == 0:
            return failed
        done = syscall(await_, queue, min(flying, depth // 4), depth, place + 8 * came, 0)
        for event in range(max(done, 0)):
            slot, got = control[came + 4 * event], control[came + 4 * event + 2]
            first, last = control[firsts + slot], control[firsts + slot] + control[counts + slot]
            start = positions[first] * stride // unit * unit
            if got < 4 * ((positions[last - 1] + 1) * stride - start):
                failed = min(failed, first)
            else:
                for k in range(first, last):
                    source = np.uint64(slot * room + positions[k] * stride - start)
                    to = np.uint64(at[k] * stride)
                    for word in range(np.uint64(stride)):
                        out[to + word] = memory[source + word]
            control[free + idle] = slot
            idle, flying = idle + 1, flying - 1
