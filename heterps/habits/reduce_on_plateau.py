"""Smaller steps when the validation gets no better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from heterps.errors import RunError
from heterps.habits.callbacks import Callback
from heterps.habits.improvement import Best, Watched
from heterps.runtime.report.progress import Progress

__all__ = ["ReduceOnPlateau"]


class ReduceOnPlateau(Callback):
    """Multiply all learning rates by a factor after so many passes without a better value; it holds from the next pass.

    Rates of rules and their schedules stay what they are and are multiplied where they are applied. The factor, and how
    long ago the best value was, are in every cut: a training that is resumed goes on as if nothing had happened. A
    training begins with the full rates.

    Parameters
    ----------
    metric
        Name of a metric of the validation (``train(valid=...)``).
    factor
        More than 0 and less than 1.
    patience
        Passes without a better value after which rates fall.
    least
        What a value must be better by to count.
    lowest
        What is left of the rates at least.
    rising
        Whether more is better; by default as is known of the metric.

    Examples
    --------
    >>> from heterps.habits import ReduceOnPlateau
    >>> slower = ReduceOnPlateau("auc", factor=0.5, patience=2)
    >>> session.train(train, epochs=50, valid=test, callbacks=slower)  # doctest: +SKIP
    """

    needs_valid: ClassVar[bool] = True

    def __init__(
        self,
        metric: str = "logloss",
        factor: float = 0.5,
        patience: int = 1,
        least: float = 0.0,
        lowest: float = 0.0,
        rising: bool | None = None,
    ) -> None:
        if not 0 < factor < 1:
            raise RunError(f"ReduceOnPlateau(factor={factor}): rates fall by a factor of more than 0 and less than 1")
        if patience < 1:
            raise RunError(f"ReduceOnPlateau(patience={patience}): training must get a pass to become better in")
        if not 0 <= lowest <= 1:
            raise RunError(f"ReduceOnPlateau(lowest={lowest}): what is left of the rates is from 0 to 1")
        self.watched, self.factor, self.patience, self.least = Watched(metric, rising), factor, patience, least
        self.lowest = lowest
        self._session: Any = None  # while training

    def on_begin(self, session: Any) -> None:
        """Remember whose rates they are."""
        self._session = session

    def on_pass(self, progress: Progress) -> None:
        """Take a pass's value; where there was nothing better for too long the next pass has smaller rates."""
        engine, name = self._session.engine, f"plateau {self.watched.name}"
        carried = engine.carried
        best = Best.recalled(carried, name, self.watched.is_rising, self.least)
        best.take(self.watched.of(replace(progress, metrics={}, loss=float("nan"))))
        if best.since >= self.patience:
            carried, best.since = replace(carried, rate=max(carried.rate * self.factor, self.lowest)), 0
        engine.carried = best.noted(carried, name)

    def on_end(self) -> None:
        """Let the session go."""
        self._session = None
