"""Stop when the validation gets no better."""

from __future__ import annotations

from typing import Any, ClassVar

from heterps.errors import RunError
from heterps.habits.callbacks import Callback
from heterps.habits.improvement import Best, Watched
from heterps.runtime.report.progress import Progress

__all__ = ["EarlyStopping"]


class EarlyStopping(Callback):
    """End training after so many passes without a better value; one that is resumed remembers the best it had.

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

    takes_notes: ClassVar[bool] = True

    def __init__(
        self, metric: str = "logloss", patience: int = 1, least: float = 0.0, rising: bool | None = None
    ) -> None:
        if patience < 1:
            raise RunError(f"EarlyStopping(patience={patience}): training must get a pass to become better in")
        self.watched, self.patience, self.least = Watched(metric, rising), patience, least
        self._session: Any = None  # while training

    def on_begin(self, session: Any) -> None:
        """Remember whose passes they are."""
        self._session = session

    def on_pass(self, progress: Progress) -> bool:
        """Say whether there was nothing better for too long."""
        engine, name = self._session.engine, f"stop {self.watched.name}"
        best = Best.recalled(engine.carried, name, self.watched.is_rising, self.least)
        best.take(self.watched.of(progress))
        engine.carried = best.noted(engine.carried, name)
        return best.since >= self.patience

    def on_end(self) -> None:
        """Let the session go."""
        self._session = None
