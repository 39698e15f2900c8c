"""What a soak has seen: per fault how often, whether all stayed exact, how long nothing was applied, what it cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

__all__ = ["Hit", "Tally", "longest_stop", "quantile", "share_lost", "totals"]

KILLS = ("kill", "freeze", "part")
"""Faults after which the process is gone for good, without having been asked."""
BEFORE_S, AFTER_S = 2.0, 5.0  # whose throughput is compared

Applied = Sequence[tuple[float, int]]
"""Moments and how many samples had been applied by then, in order."""


def longest_stop(applied: Applied, since: float, until: float) -> float:
    """Return the longest time without a newly applied batch that overlaps a stretch of time.

    What is applied again after a return to a cut is not new: the time until then counts.
    """
    moments, most = [applied[0][0]], applied[0][1]
    for now, count in applied:
        if count > most:
            most = count
            moments.append(now)
    return max((b - a for a, b in pairwise([*moments, applied[-1][0]]) if b > since and a <= until), default=0.0)


def share_lost(applied: Applied, hit: float) -> float:
    """Return which share of the throughput just before a moment was missing in the seconds after it."""
    before = _rate(applied, hit - BEFORE_S, hit)
    return max(0.0, 1 - _rate(applied, hit, hit + AFTER_S) / before) if before > 0 else 0.0


def _rate(applied: Applied, since: float, until: float) -> float:
    """Samples per second between two moments, as far as there are any."""
    inside = [(now, count) for now, count in applied if since <= now <= until]
    if len(inside) < 2 or inside[-1][0] == inside[0][0]:
        return 0.0
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def quantile(values: Iterable[float], share: float) -> float:
    """Return the least value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Hit:
    """One fault: seconds without a new batch, share of throughput lost, whether the training around it was exact."""

    stop_s: float
    lost: float
    exact: bool = True


@dataclass
class Tally:
    """Counts of one soak, or of a log of them.

    Attributes
    ----------
    hits
        By fault.
    rounds, inexact
        Trainings, and those of which a batch was lost or counted twice.
    """

    hits: dict[str, list[Hit]] = field(default_factory=dict)
    rounds: int = 0
    inexact: int = 0

    def end_round(self, hits: Iterable[tuple[str, Hit]], exact: bool) -> None:
        """Count a training with what happened in it."""
        self.rounds += 1
        self.inexact += not exact
        for fault, hit in hits:
            hit.exact = exact
            self.hits.setdefault(fault, []).append(hit)

    @property
    def kills(self) -> int:
        """Processes that were killed, or stopped or cut off for good."""
        return sum(len(hits) for fault, hits in self.hits.items() if fault.split()[0] in KILLS)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield fault, times, exact ones, seconds without a batch (median, 99 of 100, most), throughput lost."""
        for fault, hits in sorted(self.hits.items()):
            stops = [hit.stop_s for hit in hits]
            figures = (quantile(stops, 0.5), quantile(stops, 0.99), max(stops))
            lost = quantile((hit.lost for hit in hits), 0.5)
            exact = sum(hit.exact for hit in hits)
            yield fault, str(len(hits)), str(exact), *(f"{figure:.2f}" for figure in figures), f"{100 * lost:.0f} %"

    def append_to(self, log: Path, **about: object) -> None:
        """Add a line to a log."""
        with log.open("a") as file:
            file.write(json.dumps({**about, **asdict(self), "kills": self.kills}) + "\n")


def totals(log: Path, **about: object) -> Tally:
    """Return what all soaks in a log come to, or those of them about which this was said."""
    found = Tally()
    for line in map(json.loads, filter(None, log.read_text().splitlines())):
        if "hits" in line and about.items() <= line.items():
            found.rounds += line["rounds"]
            found.inexact += line["inexact"]
            for fault, hits in line["hits"].items():
                found.hits.setdefault(fault, []).extend(Hit(**hit) for hit in hits)
    return found
