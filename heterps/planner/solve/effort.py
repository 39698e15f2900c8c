"""How long a search may take, and what it says when that was not enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["NEVER", "Deadline", "UndecidedError"]


class UndecidedError(Exception):
    """Neither a placement nor the proof that there is none was found within the time and memory there is.

    That nothing is feasible is a claim like that something is optimal: without its proof, this is raised instead.
    ``bound`` is a value that nothing beats, where one is known.
    """

    def __init__(self, message: str, bound: float | None = None) -> None:
        super().__init__(message)
        self.bound = bound


class Deadline:
    """One limit for a whole search: every part of it asks how much is left."""

    def __init__(self, seconds: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._start = clock()

    @property
    def left(self) -> float:
        """Seconds that are left, not negative."""
        return max(0.0, self.seconds - (self._clock() - self._start))

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0.0


NEVER = Deadline()
