"""Keep the best model of a training on disk, and come back to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from heterps.habits.callbacks import Callback
from heterps.habits.improvement import Best, Watched
from heterps.runtime.report.progress import Progress
from heterps.writing import check_folder

__all__ = ["KeepBest"]


class KeepBest(Callback):
    """Save the model after each pass that is better than all before; ``hps.load(folder)`` opens it.

    Parameters
    ----------
    folder
        Where.
    metric
        As for :class:`~heterps.habits.early_stopping.EarlyStopping`.
    restore
        Take the best model into the session when training ends, if it is not the last.
    rising
        Whether more is better; by default as is known of the metric.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        metric: str = "logloss",
        restore: bool = True,
        rising: bool | None = None,
    ) -> None:
        self.folder, self.watched, self.restore = Path(folder), Watched(metric, rising), restore
        self.best = Best(self.watched.is_rising)
        self._session: Any = None  # while training

    def on_begin(self, session: Any) -> None:
        """Begin anew; a folder that cannot be written to is an error now."""
        check_folder(self.folder)
        self._session, self.best = session, Best(self.watched.is_rising)

    def on_pass(self, progress: Progress) -> None:
        """Save what is better than all before."""
        if self.best.take(self.watched.of(progress)):
            self._session.save(self.folder)

    def on_end(self) -> None:
        """Bring the best model back."""
        session, self._session = self._session, None
        if self.restore and session is not None and self.best.since > 0:
            session.load(self.folder)
