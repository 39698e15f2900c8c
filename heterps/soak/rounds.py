"""Trainings of a soak: workers are hit while they go on, and what that did is measured and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

import heterps as hps
from heterps.soak.counted_model import all_rows, count_shows, counted_data
from heterps.soak.tally import Hit, longest_stop, share_lost
from heterps.soak.victims import LASTING_S, Victims

__all__ = ["Chooser", "Pace", "Round", "at_random", "each_once", "hit_while_training", "rounds"]

ROWS = 2000
LEAST, MOST = 2, 200  # epochs that a round may have
GOING_ON_S = 0.5  # since the last batch, in a run that goes on
SAFE = 0.8  # of a round's samples, after which nobody is hit: what is lost after the last batch is another matter

Chooser = Callable[[Callable[[str], bool]], str | None]
"""``choose(able)`` returns the fault that is to happen now, one that is able to; None: none, for now."""


@dataclass(frozen=True)
class Pace:
    """How fast things happen.

    Parameters
    ----------
    round_s
        How long a round is to take.
    between_s
        Least and most seconds from one fault to the next.
    lasting_s
        How long faults last that do, where not as :data:`~heterps.soak.victims.LASTING_S` says.
    """

    round_s: float = 20.0
    between_s: tuple[float, float] = (1.0, 5.0)
    lasting_s: float | None = None

    def lasts(self, fault: str) -> float:
        """Return how long a fault lasts; 0 for what happens in a moment."""
        usual = LASTING_S.get(fault.split()[0], 0.0)
        return usual if self.lasting_s is None else min(usual, self.lasting_s)


@dataclass(frozen=True)
class Round:
    """One training: what was applied, what was counted, what else is not right, and what happened."""

    samples: int
    counted: tuple[int, ...]
    wanted: int
    apart: str
    seconds: float
    hits: tuple[tuple[str, Hit], ...]

    @property
    def exact(self) -> bool:
        """Whether every sample was counted once by every host, and tables are those of the twin."""
        return set(self.counted) == {self.wanted} and not self.apart

    def __str__(self) -> str:
        struck = ", ".join(f"{fault} {hit.stop_s:.2f} s" for fault, hit in self.hits) or "nobody hit"
        wrong = f"NOT EXACT: hosts counted {self.counted}, {self.wanted:,} wanted{self.apart and ', ' + self.apart}"
        return f"{self.samples:,} samples in {self.seconds:.0f} s, {'exact' if self.exact else wrong}; {struck}"


def at_random(faults: Sequence[str], random: Random) -> Chooser:
    """Choose any of those that can happen."""

    def choose(able: Callable[[str], bool]) -> str | None:
        now = [fault for fault in faults if able(fault)]
        return random.choice(now) if now else None

    return choose


def each_once(left: list[str]) -> Chooser:
    """Choose one after another, the first that is able to happen; what was chosen is taken out of the list."""

    def choose(able: Callable[[str], bool]) -> str | None:
        found = next((i for i, fault in enumerate(left) if able(fault)), None)
        return None if found is None else left.pop(found)

    return choose


@dataclass
class Headway:
    """When a run last got further than it had ever been: what is trained again after a return to a cut is none."""

    most: int = 0
    at: float = 0.0

    def note(self, now: float, samples: int) -> None:
        """Take in how far the run is."""
        if samples > self.most:
            self.most, self.at = samples, now


def nobody(able: Callable[[str], bool]) -> str | None:
    """Choose nothing."""
    return None


def rounds(
    session: hps.Session,
    twin: hps.Session | None,
    victims: Victims,
    choose: Chooser,
    random: Random,
    pace: Pace,
    *,
    warm: bool = False,
) -> Iterator[Round]:
    """Train round after round.

    Parameters
    ----------
    session, twin
        What is trained, and what is trained the same without being hit, to the bit; None: nothing is.
    victims, choose, random, pace
        Who is hit, by what, when.
    warm
        Nobody is hit in the first round, while processes still load what they run: that would count as a stop.
    """
    data, total, epochs = counted_data(session, ROWS), 0, LEAST
    while True:
        begin, wanted = time.monotonic(), ROWS * epochs
        chooser = nobody if warm and not total else choose
        samples, hits = hit_while_training(session, data, epochs, wanted, victims, chooser, random, pace)
        seconds, total = time.monotonic() - begin, total + wanted
        counted = tuple(session.engine.each_shard(count_shows))
        apart = "" if samples == wanted else f"the run says {samples:,} of {wanted:,}"
        if twin is not None:
            for _ in twin.train(data, epochs):
                pass
            apart = apart or difference(all_rows(session), all_rows(twin))
        yield Round(samples, counted, total, apart, seconds, tuple(hits))
        epochs = max(LEAST, min(MOST, int(epochs * pace.round_s / seconds)))


def difference(mine: NDArray[np.float32], twins: NDArray[np.float32]) -> str:
    """Say in which way values differ that must not; nothing where none does."""
    if np.array_equal(mine, twins):
        return ""
    apart = mine != twins
    columns = ", ".join(f"{n} of column {i}" for i, n in enumerate(apart.sum(axis=0)) if n)
    return f"values differ from the twin's by up to {np.abs(mine - twins).max():.3g}: {columns} ({len(mine)} rows each)"


def hit_while_training(
    session: hps.Session,
    data: hps.Dataset,
    epochs: int,
    samples: int,
    victims: Victims,
    choose: Chooser,
    random: Random,
    pace: Pace,
) -> tuple[int, list[tuple[str, Hit]]]:
    """Train once, hitting workers; return the samples that were applied, and what each hit did."""
    applied: list[tuple[float, int]] = []
    hits: list[tuple[float, str]] = []
    next_hit, over_at, headway, found = time.monotonic() + random.uniform(*pace.between_s), 0.0, Headway(), 0
    for progress in session.train(data, epochs):
        now, found = time.monotonic(), progress.samples
        headway.note(now, found)
        applied.append((now, found))
        if now > over_at > 0:
            victims.over(hits[-1][1])
            over_at = 0.0
        # Only what goes on is hit again: each stop is to be that of one fault.
        able = now - headway.at < GOING_ON_S and found < SAFE * samples and not progress.unprotected and not over_at
        if able and now > next_hit:
            fault = choose(victims.able)
            if fault is not None and victims.hit(fault):
                hits.append((now, fault))
                over_at = now + pace.lasts(fault) if pace.lasts(fault) else 0.0
            next_hit = now + random.uniform(*pace.between_s)
    victims.clear()
    ends = [moment for moment, _ in hits[1:]] + [applied[-1][0]]
    return found, [
        (fault, Hit(longest_stop(applied, moment, end), share_lost(applied, moment)))
        for (moment, fault), end in zip(hits, ends, strict=False)
    ]
