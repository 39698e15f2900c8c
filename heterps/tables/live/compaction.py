"""Compaction in the background: room of rows that were changed or deleted is freed, so many bytes a second at most."""

from __future__ import annotations

import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Protocol

from heterps.errors import HeterpsError

__all__ = ["GARBAGE", "Compaction"]

#: Share of a log from which on it is compacted: the file is at most about 1 / (1 - it) of its rows.
GARBAGE = 0.3


class _Compacted(Protocol):
    def compact(self, garbage: float) -> int: ...


class Compaction:
    """Wakes when there may be something to do, and ends when there is not; nothing runs for tables at rest.

    One thread of the process does it for all tables, so the limit is the process's.
    """

    def __init__(self, part: _Compacted, bytes_per_s: float) -> None:
        self._part, self._rate = weakref.ref(part), bytes_per_s
        self._lock = threading.Lock()
        self._awake = False

    def wake(self) -> None:
        """Look whether there is something to do, soon."""
        with self._lock:
            if self._awake:
                return
            self._awake = True
        self._submit()

    def _submit(self) -> None:
        with suppress(RuntimeError):  # the process ends
            _worker().submit(self._step)

    def _step(self) -> None:
        part, moved = self._part(), 0
        if part is not None:
            with suppress(HeterpsError):  # a full disk, or a broken one: whoever needs it next is told
                moved = part.compact(GARBAGE)
        del part  # which may go while this waits
        if moved:
            time.sleep(moved / self._rate)
            self._submit()
            return
        with self._lock:
            self._awake = False


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="rows-compact")


os.register_at_fork(after_in_child=_worker.cache_clear)  # threads do not come along
