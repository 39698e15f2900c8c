"""Credits that the attempts of one io worker share, or the batches of a stage worker, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from heterps.protocol.client.credits import Credits

__all__ = ["SharedCredits"]


class SharedCredits(Credits):
    """Credits behind a lock."""

    def __init__(self, turn: int = 0) -> None:
        super().__init__(turn)
        self._lock = threading.Lock()  # around every look at the counts

    def take(self, stages: Sequence[str]) -> str:
        """Return the stage worker for the next batch and count it there."""
        with self._lock:
            return super().take(stages)

    def measured(self, stage: str, seconds: float) -> None:
        """A batch took so long."""
        with self._lock:
            super().measured(stage, seconds)

    def give_back(self, stage: str | None) -> None:
        """The batch came back, or will never."""
        with self._lock:
            super().give_back(stage)
