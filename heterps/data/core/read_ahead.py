"""Reading ahead: the next batches are there before they are asked for, and so is the news that there are none."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from heterps.data.core.batch import Batch

__all__ = ["Ahead", "OneAhead", "Reader"]


class Reader(Protocol):
    """Batches, one after another; ``ended`` once the last was read, as a rule before it is taken."""

    ended: bool

    @property
    def waiting(self) -> int:
        """How many batches are read and not taken."""

    def __iter__(self) -> Iterator[Batch]:
        """Return itself."""

    def __next__(self) -> Batch:
        """Return the next batch."""

    def close(self) -> None:
        """Stop reading."""


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class Ahead:
    """What ``read(ring)`` yields, read up to ``depth`` batches ahead by a thread, which begins at once.

    ``ring`` is the number of buffers the reader must use in turn: one being written, ``depth`` waiting, one with the
    caller. Closing stops the thread and waits for it; an error is raised where the batch would have been.
    """

    def __init__(self, read: Callable[[int], Iterator[Batch]], depth: int = 2) -> None:
        self.ended = False
        self._waiting: queue.Queue[Batch | _Failure | None] = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(read, depth + 2), name="heterps-ahead", daemon=True)
        self._thread.start()

    def _work(self, read: Callable[[int], Iterator[Batch]], ring: int) -> None:
        batches = read(ring)
        try:
            if all(self._put(batch) for batch in batches):
                self.ended = True
                self._put(None)
        except BaseException as error:
            self._put(_Failure(error))
        finally:
            batches.close()  # type: ignore[attr-defined]

    def _put(self, item: Batch | _Failure | None) -> bool:
        while not self._stop.is_set():
            try:
                self._waiting.put(item, timeout=0.05)
            except queue.Full:
                continue
            return True
        return False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        item = None if self._stop.is_set() else self._waiting.get()
        if isinstance(item, Batch):
            return item
        self.close()
        if item is None:
            raise StopIteration
        raise item.error

    @property
    def waiting(self) -> int:
        """How many batches are read and not taken."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        self._thread.join()


class OneAhead:
    """Batches that cost next to nothing to read, the next one read with each: no thread, but the end is known early."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.ended = False
        self._batches = batches
        self._next: Batch | None = None
        self._begun = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self._next if self._begun else next(self._batches, None)
        self._begun = True
        if batch is None:
            self.ended = True
            raise StopIteration
        self._next = next(self._batches, None)
        self.ended = self._next is None
        return batch

    @property
    def waiting(self) -> int:
        """How many batches are read and not taken: at most one."""
        return int(self._next is not None)

    def close(self) -> None:
        """Close the files below."""
        self._batches.close()  # type: ignore[attr-defined]
