"""One training of a soak: workers are hit while it goes on, and what that did is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import heterps as hps
from heterps.soak.tally import Hit, longest_stop, share_lost
from heterps.soak.victims import LASTING_S, Victims

__all__ = ["Chooser", "hit_while_training"]

GOING_ON_S = 0.5  # since the last batch, in a run that goes on
BETWEEN_S = (1.0, 5.0)  # from one fault to the next
SAFE = 0.8  # of a round's samples, after which nobody is hit: what is lost after the last batch is another matter

Chooser = Callable[[], str | None]
"""Returns the fault to come next; None: no more."""


def hit_while_training(
    session: hps.Session,
    data: hps.Dataset,
    epochs: int,
    samples: int,
    victims: Victims,
    choose: Chooser,
    random: Random,
) -> tuple[int, list[tuple[str, Hit]]]:
    """Train once, hitting workers; return the samples that were applied, and what each hit did.

    Parameters
    ----------
    session, data, epochs, samples
        What is trained, and how many samples that is.
    victims
        Who is hit.
    choose
        What comes next; asked again later where it cannot happen now.
    random
        Draws the time between.
    """
    applied: list[tuple[float, int]] = []
    hits: list[tuple[float, str]] = []
    next_hit, over_at, moved, found = time.monotonic() + random.uniform(*BETWEEN_S), 0.0, 0.0, 0
    wanted: str | None = None
    for progress in session.train(data, epochs):
        now = time.monotonic()
        moved, found = now if progress.samples > found else moved, progress.samples
        applied.append((now, found))
        if now > over_at > 0:
            victims.over(hits[-1][1])
            over_at = 0.0
        # Only what goes on is hit again: each stop is to be that of one fault.
        able = now - moved < GOING_ON_S and found < SAFE * samples and not progress.unprotected and not over_at
        if able and now > next_hit:
            wanted = wanted or choose()
            if wanted is not None and victims.hit(wanted):
                hits.append((now, wanted))
                lasts = LASTING_S.get(wanted.split()[0], 0.0)
                over_at, wanted = (now + lasts if lasts else 0.0), None
            next_hit = now + random.uniform(*BETWEEN_S)
    victims.clear()
    ends = [moment for moment, _ in hits[1:]] + [applied[-1][0]]
    return found, [
        (fault, Hit(longest_stop(applied, moment, end), share_lost(applied, moment)))
        for (moment, fault), end in zip(hits, ends, strict=False)
    ]
