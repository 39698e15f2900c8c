"""Several runs of one pass each, reported as one run of several passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.runtime.report.progress import Progress

__all__ = ["Epochs"]


class Epochs:
    """Adds up what the passes before have counted.

    Parameters
    ----------
    epochs
        Number of passes in all.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._batches = self._samples = self._skipped = self._bad_rows = self._bad_losses = self._failed_cuts = 0
        self._stale = 0.0
        self._profile = PhaseProfile()
        self._began = perf_counter()

    def report(self, progress: Progress, epoch: int, valid: Mapping[str, Any]) -> Progress:
        """Return a pass's report as one of the whole; the pass ends with its ``done`` report."""
        batches = self._batches + progress.batches
        stale = self._stale + progress.staleness * progress.batches
        whole = replace(
            progress,
            epoch=epoch,
            epochs=self.epochs,
            batches=batches,
            samples=self._samples + progress.samples,
            seconds=perf_counter() - self._began,
            staleness=stale / batches if batches else 0.0,
            skipped=self._skipped + progress.skipped,
            bad_rows=self._bad_rows + progress.bad_rows,
            bad_losses=self._bad_losses + progress.bad_losses,
            failed_cuts=self._failed_cuts + progress.failed_cuts,
            profile=self._profile + progress.profile,
            done=progress.done and epoch == self.epochs,
            valid=valid,
        )
        if progress.done:
            self._next(whole, stale)
        return whole

    def _next(self, whole: Progress, stale: float) -> None:
        self._batches, self._samples, self._stale = whole.batches, whole.samples, stale
        self._skipped, self._bad_rows, self._profile = whole.skipped, whole.bad_rows, whole.profile
        self._bad_losses, self._failed_cuts = whole.bad_losses, whole.failed_cuts
