"""Reading ahead: a background thread reads while the caller computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from heterps.data.batch import Batch

__all__ = ["ahead"]


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def ahead(read: Callable[[int], Iterator[Batch]], depth: int = 2) -> Iterator[Batch]:
    """Yield what ``read(ring)`` yields, read up to ``depth`` batches ahead by a thread.

    ``ring`` is the number of buffers the reader must use in turn: one being written, ``depth`` waiting, one with the
    caller. Closing the iterator stops the thread and waits for it; an error is raised where the batch would have been.
    """
    waiting: queue.Queue[Batch | _Failure | None] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(item: Batch | _Failure | None) -> bool:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=0.05)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        batches = read(depth + 2)
        try:
            if all(put(batch) for batch in batches):
                put(None)
        except BaseException as error:
            put(_Failure(error))
        finally:
            batches.close()  # type: ignore[attr-defined]

    thread = threading.Thread(target=work, name="preload", daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        stop.set()
        thread.join()
