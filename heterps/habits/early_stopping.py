"""Stop when the validation gets no better."""

from __future__ import annotations

from typing import Any

from heterps.errors import RunError
from heterps.habits.callbacks import Callback
from heterps.habits.improvement import Best, Watched
from heterps.runtime.report.progress import Progress

__all__ = ["EarlyStopping"]


class EarlyStopping(Callback):
    """End training after so many passes without a better value.

    Parameters
    ----------
    metric
        Name of a metric (of ``valid`` where there is one, else of the training), or ``"loss"``.
    patience
        Passes without a better value after which training ends.
    least
        What a value must be better by to count.
    rising
        Whether more is better; by default as is known of the metric.

    Examples
    --------
    >>> from heterps.habits import EarlyStopping, KeepBest
    >>> stop = [EarlyStopping("auc", patience=2), KeepBest("out/best", "auc")]
    >>> session.train(train, epochs=50, valid=test, callbacks=stop)  # doctest: +SKIP
    """

    def __init__(
        self, metric: str = "logloss", patience: int = 1, least: float = 0.0, rising: bool | None = None
    ) -> None:
        if patience < 1:
            raise RunError(f"EarlyStopping(patience={patience}): training must get a pass to become better in")
        self.watched, self.patience, self.least = Watched(metric, rising), patience, least
        self.best = Best(self.watched.is_rising, least)

    def on_begin(self, session: Any) -> None:
        """Begin anew."""
        self.best = Best(self.watched.is_rising, self.least)

    def on_pass(self, progress: Progress) -> bool:
        """Say whether there was nothing better for too long."""
        self.best.take(self.watched.of(progress))
        return self.best.since >= self.patience
