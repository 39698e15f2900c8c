"""What was applied so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from heterps.runtime.batch.payload import PushedGradients

__all__ = ["Counts"]


@dataclass
class Counts:
    """What a host has applied; exactly once, as the gradients themselves.

    ``loss`` sums those that are finite numbers; ``bad_losses`` counts the others, ``bad_streak`` those since the last
    finite one.
    """

    batches: int = 0
    samples: int = 0
    loss: float = 0.0
    skipped: int = 0
    staleness: int = 0
    stalest: int = 0
    bad_losses: int = 0
    bad_streak: int = 0

    def since(self, before: Counts) -> Counts:
        """Return what was added after ``before``."""
        return Counts(
            self.batches - before.batches,
            self.samples - before.samples,
            self.loss - before.loss,
            self.skipped - before.skipped,
            self.staleness - before.staleness,
            self.stalest,
            self.bad_losses - before.bad_losses,
            self.bad_streak,
        )

    def add(self, gradients: PushedGradients, skipped: int, staleness: int | None, batches: int = 1) -> None:
        """Count one applied push."""
        self.batches += batches
        self.samples += gradients.samples
        is_finite = isfinite(gradients.loss)
        self.loss += gradients.loss if is_finite else 0.0
        self.bad_losses += not is_finite
        self.bad_streak = 0 if is_finite else self.bad_streak + 1
        self.skipped += skipped + gradients.skipped
        self.staleness += (staleness or 0) * batches
        self.stalest = max(self.stalest, staleness or 0)
