"""Many reads of a file at once without a thread for each: the kernel's own queue, where it has one.

A thread hands the kernel dozens of reads in one call and takes what has come in another. That costs half the processor
time of as many threads that each wait for one read.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.tables.live.region import Region
from heterps.tables.loops.disk_reads import CONTROL, PAGE, read_scattered

__all__ = ["DEPTH", "DiskQueue", "disk_queue"]

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

#: Reads that a queue has in flight, and pages of each at least.
DEPTH, PAGES = 64, 4
#: Numbers of the system calls io_setup, io_submit, io_getevents and io_destroy, by machine.
_CALLS = {"x86_64": (206, 209, 208, 207), "aarch64": (0, 2, 4, 1)}


class DiskQueue:
    """A queue of one thread.

    Parameters
    ----------
    calls
        Numbers of the system calls.
    """

    def __init__(self, calls: tuple[int, int, int, int]) -> None:
        make, self._submit, self._await, end = calls
        context = ctypes.c_ulong(0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(ctypes.c_long(make), ctypes.c_long(DEPTH), ctypes.byref(context)):
            raise OSError(ctypes.get_errno(), "the kernel has no queue for reads")
        self._context = context.value
        weakref.finalize(self, _end, libc, end, context, os.getpid()).atexit = False  # a thread's ends with it
        self._memory: U32 = np.empty(0, np.uint32)
        self._control = np.zeros(CONTROL * DEPTH, np.int64)

    def read(self, file: int, unit: int, stride: int, positions: I64, out: U32, at: I64) -> int:
        """Read the rows at ascending positions, each to its row of ``out``; return how many before a failure.

        Reads begin and end with units, of so many words.
        """
        size = DEPTH * PAGE * max(PAGES, stride // PAGE + 3)
        if len(self._memory) < size:
            self._memory = Region(np.uint32, size).array
        memory, control = self._memory, self._control
        words = (self._context, self._submit, self._await, file, memory.ctypes.data, memory, DEPTH)
        return int(read_scattered(*words, control.ctypes.data, control, unit, stride, positions, out.reshape(-1), at))


def _end(libc: ctypes.CDLL, number: int, context: ctypes.c_ulong, process: int) -> None:
    """Give a queue back; a child of its process has none."""
    if os.getpid() == process:
        libc.syscall(ctypes.c_long(number), context)


class _OwnQueue(threading.local):
    def __init__(self) -> None:
        self.process = 0
        self.queue: DiskQueue | None = None


_OWN = _OwnQueue()


def disk_queue() -> DiskQueue | None:
    """Return the queue of this thread; None where the kernel has none."""
    if _OWN.process != os.getpid():  # a queue does not come along into a child
        _OWN.process, _OWN.queue = os.getpid(), _made()
    return _OWN.queue


def _made() -> DiskQueue | None:
    calls: Any = _CALLS.get(platform.machine()) if platform.system() == "Linux" else None
    try:
        return None if calls is None else DiskQueue(calls)
    except OSError:
        return None
