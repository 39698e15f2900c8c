"""What was applied so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from heterps.runtime.batch.payload import PushedGradients

__all__ = ["Counts"]


@dataclass
class Counts:
    """What a host has applied; exactly once, as the gradients themselves."""

    batches: int = 0
    samples: int = 0
    loss: float = 0.0
    skipped: int = 0
    staleness: int = 0
    stalest: int = 0

    def since(self, before: Counts) -> Counts:
        """Return what was added after ``before``."""
        return Counts(
            self.batches - before.batches,
            self.samples - before.samples,
            self.loss - before.loss,
            self.skipped - before.skipped,
            self.staleness - before.staleness,
            self.stalest,
        )

    def add(self, gradients: PushedGradients, skipped: int, staleness: int | None) -> None:
        """Count one applied push."""
        self.batches += 1
        self.samples += gradients.samples
        self.loss += gradients.loss
        self.skipped += skipped
        self.staleness += staleness or 0
        self.stalest = max(self.stalest, staleness or 0)
