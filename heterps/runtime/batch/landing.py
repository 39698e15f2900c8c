"""Room for one answer, between the thread that brings it and the one that waits for it."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["Landing"]


class Landing:
    """Says whether an answer may still be written to the buffers that were given with its question.

    It may until the answer was taken, or the question was asked anew: of another copy of the host, say, while the one
    before is slow and not dead. After that the buffers are those of a batch that is being computed, or of the next one.
    Whoever brings the answer holds the landing while it writes::

        with landing as is_open:
            if is_open: ...
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_open = True  # closed by the thread that asked, which alone may read it without holding the landing

    def __enter__(self) -> bool:
        self._lock.acquire()
        return self.is_open

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def close(self) -> None:
        """Let nothing land any more; waits for who is writing."""
        with self._lock:
            self.is_open = False
