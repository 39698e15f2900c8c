"""What a stream does next, given its ledger and what the source offers: a pure function, so that a restart repeats it.

1. What is owed comes first: shrink, base, delta, checkpoint, in the order in which the ledger has them.
2. A portion of a later day ends the open one before it is looked at.
3. A portion that is missing, or late where late ones are not wanted, is passed over; any other is trained on.
4. Without a portion: the open day ends where the source says that it is over; a stream that is not to go on waiting
   makes a last checkpoint and ends; else it waits.

Nothing here depends on time. What does, what the source offers, is noted in the journal before it is acted on.
"""

from __future__ import annotations

from dataclasses import dataclass

from heterps.streaming.ledger import KEEP, Cadence, Ledger, Owed
from heterps.streaming.portion import Nothing, Portion, day_order

__all__ = ["Do", "End", "EndDay", "Learn", "NextStep", "PassOver", "Wait", "next_step"]


@dataclass(frozen=True)
class Do:
    """Do something that is owed."""

    what: Owed


@dataclass(frozen=True)
class EndDay:
    """The open day is over."""

    day: str


@dataclass(frozen=True)
class Learn:
    """Measure the model on a portion, then train on it."""

    portion: Portion
    late: bool


@dataclass(frozen=True)
class PassOver:
    """Leave a portion out, for a reason."""

    portion: Portion
    why: str


@dataclass(frozen=True)
class Wait:
    """Ask the source again later."""

    awaited: str


@dataclass(frozen=True)
class End:
    """All is done and kept."""


NextStep = Do | EndDay | Learn | PassOver | Wait | End


def next_step(ledger: Ledger, cadence: Cadence, offer: Portion | Nothing, follow: bool) -> NextStep:
    """Return what to do; see the rules above."""
    if ledger.owed:
        return Do(ledger.owed[0])
    if isinstance(offer, Portion):
        return _with_portion(ledger, cadence, offer)
    if offer.closes and ledger.day is not None:
        return EndDay(ledger.day)
    if follow or offer.expected:
        return Wait(offer.awaited)
    return Do(KEEP) if ledger.since_checkpoint else End()


def _with_portion(ledger: Ledger, cadence: Cadence, portion: Portion) -> NextStep:
    if ledger.day is not None and day_order(portion.day) > day_order(ledger.day):
        return EndDay(ledger.day)
    late = ledger.is_late(portion)
    if portion.missing:
        return PassOver(portion, "missing")
    if late and cadence.late == "skip":
        return PassOver(portion, "late")
    return Learn(portion, late)
