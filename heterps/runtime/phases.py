"""Where the time of a worker goes, cheap enough to stay on: two clock readings per phase and batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter

__all__ = ["PHASES", "Phases"]

PHASES = ("read", "deduplicate", "pull", "forward", "backward", "push", "waiting", "metrics")


class Phases:
    """Seconds by phase."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0) | dict(seconds or {})

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the time inside the ``with`` block."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += perf_counter() - start

    def merge(self, other: Mapping[str, float]) -> None:
        """Add another worker's times."""
        for phase, seconds in other.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """Return the times since the last call."""
        seconds, self.seconds = self.seconds, dict.fromkeys(self.seconds, 0.0)
        return seconds

    @property
    def busy(self) -> float:
        """Share of the time not spent waiting."""
        total = sum(self.seconds.values())
        return 1 - self.seconds["waiting"] / total if total else 0.0
