"""Batches that trickle until a file is there: for tests in which something has to happen while a run goes on."""

import time
from pathlib import Path

from heterps.data import Batch
from heterps.runtime.batch.reading import Reading

__all__ = ["throttle"]

_PAUSE_S = 0.2


def throttle(gate: str) -> None:
    """Have this process read slowly until the file ``gate`` exists."""
    read = Reading.batch

    def slow(self: Reading, n: int) -> Batch | None:
        if not Path(gate).exists():
            time.sleep(_PAUSE_S)
        return read(self, n)

    Reading.batch = slow  # type: ignore[method-assign]
