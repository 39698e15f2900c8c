"""What a soak has seen: per fault how often, whether all stayed exact, and for how long nothing was applied."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

__all__ = ["Tally", "longest_stop", "quantile", "totals"]


def longest_stop(applied: Sequence[tuple[float, int]], since: float, until: float) -> float:
    """Return the longest time without an applied batch that overlaps a stretch of time.

    Parameters
    ----------
    applied
        Moments and how many samples had been applied by then, in order.
    since, until
        The stretch.
    """
    moments = [applied[0][0]] + [now for (_, before), (now, count) in pairwise(applied) if count > before]
    return max((b - a for a, b in pairwise([*moments, applied[-1][0]]) if b >= since and a <= until), default=0.0)


def quantile(values: Iterable[float], share: float) -> float:
    """Return the least value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Tally:
    """Counts of one soak.

    Attributes
    ----------
    stops
        By fault, the longest time without an applied batch after each.
    rounds, inexact
        Trainings, and those of which a batch was lost or counted twice.
    """

    stops: dict[str, list[float]] = field(default_factory=dict)
    rounds: int = 0
    inexact: int = 0

    def add(self, fault: str, stop_s: float) -> None:
        """Count a fault."""
        self.stops.setdefault(fault, []).append(stop_s)

    @property
    def kills(self) -> int:
        """Processes that were killed or stopped for good."""
        return sum(len(stops) for fault, stops in self.stops.items() if not fault.startswith("slow"))

    def rows(self) -> list[tuple[str, ...]]:
        """Return fault, times, and seconds without a batch: median, 99 of 100, most."""
        return [
            (fault, str(len(s)), *(f"{q:.2f}" for q in (quantile(s, 0.5), quantile(s, 0.99), max(s))))
            for fault, s in sorted(self.stops.items())
        ]

    def append_to(self, log: Path, **about: object) -> None:
        """Add a line to a log."""
        line = {**about, "rounds": self.rounds, "inexact": self.inexact, "kills": self.kills, "stops": self.stops}
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")


def totals(log: Path) -> tuple[int, int, int]:
    """Return kills, rounds and inexact rounds of all soaks in a log."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line]
    kills, rounds, inexact = (sum(line[name] for line in lines) for name in ("kills", "rounds", "inexact"))
    return kills, rounds, inexact
