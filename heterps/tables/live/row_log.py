"""Rows on disk as a log: rows are added at its end, in blocks of megabytes; none is ever changed where it stands.

1. The file is cut into segments of the same number of rows, a power of two. A row's position is its number in the file.
2. New rows gather in memory until they fill a segment, which is then written as a whole while the next one fills.
3. A segment counts its rows that are still meant. One with none is free for new rows; until then what stands there
   stays, so that whoever knows a position may read it without anybody's lock. :meth:`RowLog.pin` keeps all for a while.
4. Blocks of the disk are taken before rows are promised room (:meth:`RowLog.promised`): a full disk is an error with a
   name before anything has changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import TableFullError
from heterps.tables.live.disk_queue import DEPTH, disk_queue
from heterps.tables.live.region import Region
from heterps.tables.live.scratch_file import ScratchFile
from heterps.tables.loops.disk_reads import GAP, PAGE, SECTOR, read_rows

__all__ = ["MOST", "LogTraffic", "RowLog"]

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]

#: Positions of a log: with one more they have 30 bits.
MOST = 2**30 - 2
#: Reads in flight of a process, rows that one of them is worth a thread, and words of what a thread reads at once.
READERS, WORTH_IT, READ_WORDS = 64, 16, 1 << 17
#: Threads that read through a queue of the kernel, each with many reads in flight, where it has such queues.
QUEUES = 2
#: Segments on their way to the disk; whoever fills another one waits.
FLYING = 3


class LogTraffic(NamedTuple):
    """Bytes of rows that were asked of the disk, and bytes that were written to it."""

    read: int
    written: int


class RowLog:
    """Whoever calls holds the lock of the partition, but for :meth:`read`.

    Parameters
    ----------
    stride
        Words of a row.
    folder
        Where the file is.
    block_bytes
        What is written at once, at least.
    most
        Positions that there may be.

    Attributes
    ----------
    live
        For each segment the rows that are meant.
    shift
        A position shifted right by it is a segment.
    """

    def __init__(self, stride: int, folder: Path, block_bytes: int, most: int = MOST) -> None:
        self.stride, self.folder = stride, folder
        self.shift = max(10, (max(block_bytes // (4 * stride), 1) - 1).bit_length())
        self.segment_rows = 1 << self.shift
        self.live: I32 = np.zeros((most >> self.shift) + 1, np.int32)
        self._uses: I32 = np.zeros(len(self.live), np.int32)  # how often a segment was begun
        self._file = ScratchFile(folder)
        self._segments = 0  # of the file
        self._free: list[int] = []
        self._kept: list[int] = []  # free, but somebody may read them
        self._pins = self._promised = 0
        self._tail, self._filled = -1, 0
        self._memory = self._new_memory()
        self._flying: dict[int, tuple[Future[None], U32]] = {}
        self._spare: list[U32] = []
        self._lock = threading.Lock()  # of what is in memory: read() may be called by anybody
        self._read_bytes = self._written_bytes = 0
        self._unit = SECTOR  # of reads that are not of whole pages

    def _new_memory(self) -> U32:
        words: U32 = Region(np.uint32, self.segment_rows * self.stride).array[: self.segment_rows * self.stride]
        return words.reshape(self.segment_rows, self.stride)

    @property
    def traffic(self) -> LogTraffic:
        """What went to and came from the disk."""
        return LogTraffic(self._read_bytes, self._written_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._segments * self._segment_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of rows that are in memory on their way to the disk, at most."""
        return (FLYING + 2) * self._segment_bytes + 8 * self._segments

    @property
    def extent(self) -> int:
        """Positions are below it."""
        return self._segments << self.shift

    @property
    def _segment_bytes(self) -> int:
        return 4 * self.stride << self.shift

    @property
    def room(self) -> int:
        """Rows that can be added without another block of the disk, and are promised to nobody."""
        return self._all_room - self._promised

    @property
    def _all_room(self) -> int:
        left = self.segment_rows - self._filled if self._tail >= 0 else 0
        return left + (len(self._free) << self.shift)

    @contextmanager
    def promised(self, n: int) -> Iterator[None]:
        """Be a context in which there is room for so many rows more, whatever others add."""
        self.reserve(n)
        self._promised += n
        try:
            yield
        finally:
            self._promised -= n

    def reserve(self, n: int) -> None:
        """Make sure that there is room for rows beside those that were promised."""
        self._land()
        if n <= 0:
            return
        if self.room < n:
            self.reclaim()
        while self.room < n:
            if self._segments == len(self.live) - 1:
                raise TableFullError(f"a log has no more than {self.extent} positions: use more threads or shard hosts")
            self._file.allocate(self._segments * self._segment_bytes, self._segment_bytes)
            self._free.append(self._segments)
            self._segments += 1

    def append(self, words: U32) -> I64:
        """Add rows for which there is room; return their positions."""
        positions = np.empty(len(words), np.int64)
        done = 0
        while done < len(words):
            self._begin_segment()
            n = min(len(words) - done, self.segment_rows - self._filled)
            self._memory[self._filled : self._filled + n] = words[done : done + n]
            positions[done : done + n] = (self._tail << self.shift) + np.arange(self._filled, self._filled + n)
            self.live[self._tail] += n
            self._filled += n
            done += n
            if self._filled == self.segment_rows:
                self._write()
        return positions

    def _begin_segment(self) -> None:
        if self._tail < 0:
            with self._lock:
                self._tail, self._filled = self._free.pop(), 0
                self._uses[self._tail] += 1

    def _write(self) -> None:
        """Let the segment that is full be written."""
        self._land(FLYING - 1)
        start = self._tail * self._segment_bytes
        future = _writer().submit(self._file.write, self._memory, start)
        with self._lock:
            self._flying[self._tail] = (future, self._memory)
            self._memory = self._spare.pop() if self._spare else self._new_memory()
            self._tail = -1
        self._written_bytes += self._segment_bytes

    def _land(self, most: int = FLYING) -> None:
        """Forget segments that are on disk; wait until so many at most are on their way. What failed fails again."""
        for segment, (future, memory) in list(self._flying.items()):
            if future.done() or len(self._flying) > most:
                future.result()
                with self._lock:
                    del self._flying[segment]
                    self._spare.append(memory)

    def uses(self, positions: I64) -> I32:
        """Return a number for each position that changes when another row may stand there."""
        found: I32 = self._uses[positions >> self.shift]
        return found

    def read(self, positions: I64) -> U32:
        """Return the rows at positions. Who does not hold the partition's lock looks afterwards at :meth:`uses`."""
        order = np.argsort(positions, kind="stable")
        ascending = positions[order]
        out = np.empty((len(positions), self.stride), np.uint32)
        on_disk = np.ones(len(positions), np.bool_)
        with self._lock:
            there = {segment: memory for segment, (_, memory) in self._flying.items()}
            for segment, memory in {**there, self._tail: self._memory}.items():
                lo, hi = np.searchsorted(ascending, [segment << self.shift, (segment + 1) << self.shift])
                out[order[lo:hi]] = memory[ascending[lo:hi] - (segment << self.shift)]
                on_disk[lo:hi] = False
        self._from_disk(ascending[on_disk], out, order[on_disk])
        return out

    def _from_disk(self, positions: I64, out: U32, at: I64) -> None:
        if not len(positions):
            return
        self._read_bytes += 4 * self.stride * len(positions)
        far = int(positions[-1] - positions[0]) * self.stride > 2 * GAP * len(positions)
        if far and _has_queue() and len(positions) <= 2 * DEPTH:  # not behind those who read many
            self._read_scattered(positions, at, out)
        elif far and _has_queue():
            threads = min(QUEUES, 1 + len(positions) // DEPTH)
            self._in_pieces(threads, _queues(), self._read_scattered, positions, out, at)
        elif len(positions) > WORTH_IT:
            threads = min(READERS, 1 + len(positions) // WORTH_IT)
            self._in_pieces(threads, _readers(), self._read_piece, positions, out, at)
        else:
            self._read_piece(positions, at, out)

    def _in_pieces(
        self, n: int, pool: ThreadPoolExecutor, read: Callable[[I64, I64, U32], None], positions: I64, out: U32, at: I64
    ) -> None:
        edges = [len(positions) * t // n for t in range(n + 1)]
        for done in [pool.submit(read, positions[a:b], at[a:b], out) for a, b in pairwise(edges)]:
            done.result()

    def _read_scattered(self, positions: I64, at: I64, out: U32) -> None:
        """Read rows that lie far apart through the kernel's queue; what that would not take, one after another.

        By sectors: a disk answers a tenth more of them than of pages. Where it has none, the first read fails.
        """
        queue, unit = disk_queue(), self._unit
        done = 0 if queue is None else queue.read(self._file.number, unit, self.stride, positions, out, at)
        if not done:
            self._unit = PAGE
        if done < len(positions):
            self._read_piece(positions[done:], at[done:], out)

    def _read_piece(self, positions: I64, at: I64, out: U32) -> None:
        memory = _page_memory(self.stride)
        done = read_rows(self._file.number, memory.ctypes.data, memory, self.stride, positions, out.reshape(-1), at)
        if done < len(positions):
            raise self._file.why(int(positions[done]) * 4 * self.stride, 4 * self.stride)

    def release(self, positions: I64) -> None:
        """Say that rows are not meant any more."""
        np.subtract.at(self.live, positions >> self.shift, 1)

    def reclaim(self) -> None:
        """Make segments without rows free for others."""
        for segment in np.flatnonzero(self._resting() & (self.live[: self._segments] == 0)).tolist():
            self._let_go(segment)

    def _let_go(self, segment: int) -> None:
        self._uses[segment] += 1
        (self._kept if self._pins else self._free).append(segment)

    def _resting(self) -> npt.NDArray[np.bool_]:
        """Return which segments are full and on disk."""
        found = np.ones(self._segments, np.bool_)
        found[[*self._free, *self._kept, *self._flying, *([self._tail] if self._tail >= 0 else [])]] = False
        return found

    def emptiest(self, garbage: float) -> int | None:
        """Return the segment with the fewest rows, if of the log at least such a share is not meant any more."""
        self._land()
        resting = np.flatnonzero(self._resting())
        if not len(resting):
            return None
        meant = self.live[resting]
        if int(meant.sum()) > (1 - garbage) * (len(resting) << self.shift):
            return None
        return int(resting[np.argmin(meant)])

    def positions_of(self, segment: int) -> I64:
        """Return the positions of a segment."""
        return np.arange(segment << self.shift, (segment + 1) << self.shift, dtype=np.int64)

    def pin(self) -> None:
        """Keep what stands at every position until :meth:`unpin`."""
        self._pins += 1

    def unpin(self) -> None:
        """End the last :meth:`pin`."""
        self._pins -= 1
        if not self._pins:
            self._free, self._kept = [*self._free, *self._kept], []


class _PageMemory(threading.local):
    def __init__(self) -> None:
        self.words: U32 = np.empty(0, np.uint32)


_MEMORY = _PageMemory()


def _page_memory(stride: int) -> U32:
    """Return memory of this thread that begins where a page does."""
    size = max(READ_WORDS, (stride // PAGE + 3) * PAGE)
    if len(_MEMORY.words) < size:
        _MEMORY.words = Region(np.uint32, size).array
    return _MEMORY.words


@cache
def _has_queue() -> bool:
    return disk_queue() is not None


@cache
def _queues() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(QUEUES, thread_name_prefix="rows-queue")


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, thread_name_prefix="rows-read")


@cache
def _writer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="rows-write")


for _pool in (_queues, _readers, _writer):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not come along
