"""Where the time of a worker goes, cheap enough to stay on: two clock readings per phase and batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter

__all__ = ["PARTS", "PHASES", "WAITING", "Phases", "total"]

WAITING = "waiting"
# In the order in which a batch passes them. Together they are what a thread of a worker does.
PHASES = (
    "read",
    "deduplicate",
    "pull",
    "gather",
    "forward",
    "backward",
    "scatter",
    "push",
    "rule",
    "metrics",
    WAITING,
)
# What is timed inside another phase: laying out rows for the ops, adding gradients up by row, changing parameters.
PARTS: Mapping[str, str] = {"gather": "forward", "scatter": "backward", "rule": "push"}


class Phases:
    """Seconds by phase, by a clock; threads may share one."""

    __slots__ = ("_lock", "clock", "seconds")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock, self.seconds = clock, dict.fromkeys(PHASES, 0.0)
        self._lock = threading.Lock()

    def __call__(self, phase: str) -> _Timer:
        """Count the time inside a ``with`` block."""
        return _Timer(self, phase)

    def add(self, phase: str, seconds: float) -> None:
        """Count time that was measured elsewhere."""
        with self._lock:
            self.seconds[phase] += seconds

    def carve(self, parts: Mapping[str, float]) -> None:
        """Count parts of a phase under their own name, and no longer as that phase; see :data:`PARTS`."""
        with self._lock:
            for part, seconds in parts.items():
                self.seconds[part] += seconds
                self.seconds[PARTS[part]] -= seconds

    def take(self) -> dict[str, float]:
        """Return the times since the last call."""
        with self._lock:
            seconds, self.seconds = self.seconds, dict.fromkeys(PHASES, 0.0)
        return seconds


def total(times: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add times up by phase."""
    seconds: dict[str, float] = {}
    for some in times:
        for phase, more in some.items():
            seconds[phase] = seconds.get(phase, 0.0) + more
    return seconds


class _Timer:
    __slots__ = ("_phase", "_phases", "_start")

    def __init__(self, phases: Phases, phase: str) -> None:
        self._phases, self._phase = phases, phase

    def __enter__(self) -> None:
        self._start = self._phases.clock()

    def __exit__(self, *error: object) -> None:
        self._phases.add(self._phase, self._phases.clock() - self._start)
