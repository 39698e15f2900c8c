"""Memory that one end of a connection makes the arrays of its messages in, one message after another.

Arrays of megabytes that are made anew for every answer cost more than what is written to them: the kernel has to find
and clear their pages, and takes them back. Here they are made where the last answer's were.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import numpy.typing as npt

from heterps.large_pages import large_block

__all__ = ["AnswerRoom", "MessageMemory"]

_LINE = 64  # arrays begin where a line of the processor's cache does
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


class MessageMemory:
    """Room for one message at a time, as large as the largest so far. Used by one thread at a time.

    A message begins with the first array that is taken for it, and ends with :meth:`end`.
    """

    parts = 1  # messages that lie in it at once: the memory is cut into so many, which have their turns

    def __init__(self) -> None:
        self._memory: U8 = np.empty(0, np.uint8)
        self._first = self._next = 0  # of the message that was begun: where it lies, and what is free behind it
        self._wanted = 0  # bytes of that message, of those that did not fit, too
        self._most = 0  # bytes of the largest so far
        self._turn = 0  # messages that were begun
        self._begun = False

    @property
    def size(self) -> int:
        """Bytes of a message that fit."""
        return len(self._memory) // self.parts

    def take(self, nbytes: int) -> U8 | None:
        """Return room for an array of the message, None if there is none; then there will be for the next message."""
        place = self._take(nbytes)
        return None if place is None else self._memory[place : place + nbytes]

    def _take(self, nbytes: int) -> int | None:
        """Return where there is room."""
        self._begin()
        place, padded = self._next, -(-nbytes // _LINE) * _LINE
        self._wanted += padded
        if place + padded > self._first + self.size:
            return None
        self._next += padded
        return place

    def _begin(self) -> None:
        if not self._begun:
            if self._most > self.size:
                self.enlarge(self._most + self._most // 4)
            self._first = self._next = (self._turn % self.parts) * self.size
            self._begun, self._wanted = True, 0
            self._turn += 1

    def end(self) -> None:
        """Note that the message was sent, or will not be."""
        self._begun, self._most = False, max(self._most, self._wanted)

    def enlarge(self, nbytes: int) -> None:
        """Take other memory, for messages of so many bytes; the old goes when nobody has an array of it any more."""
        self._memory = large_block(nbytes * self.parts)

    def abandon(self) -> None:
        """Leave the memory to whoever still writes to it."""
        self._memory = np.empty(0, np.uint8)
        self.end()


class AnswerRoom:
    """Room for the arrays of one answer.

    A request that is answered "not yet" may be carried out all the same, by another thread that is about to find out
    that nobody waits for it. It has its arrays elsewhere, or keeps the memory for itself if it has some of it already.
    """

    def __init__(self, memory: MessageMemory | None = None) -> None:
        self._memory = memory
        self._lock = threading.Lock()  # around what follows: they who take need not be those who close
        self._open = memory is not None
        self._taken = False

    def take(self, *shape: int) -> F32:
        """Return a new array."""
        with self._lock:
            room = self._memory.take(4 * math.prod(shape)) if self._open and self._memory is not None else None
            self._taken |= room is not None
        return np.empty(shape, np.float32) if room is None else room.view(np.float32).reshape(shape)

    def close(self, *, late: bool = False) -> None:
        """Let nobody take any more; ``late`` if somebody may still write to what was taken."""
        with self._lock:
            self._open = False
            if late and self._taken and self._memory is not None:
                self._memory.abandon()
