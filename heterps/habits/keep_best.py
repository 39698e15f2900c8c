"""Keep the best model of a training on disk, and come back to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from heterps.habits.callbacks import Callback
from heterps.habits.improvement import Best, Watched
from heterps.runtime.cuts.carried import Carried
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.runtime.report.progress import Progress
from heterps.writing import check_folder

__all__ = ["KeepBest"]


class KeepBest(Callback):
    """Save the model after each pass that is better than all before; ``hps.load(folder)`` opens it.

    A training that is resumed knows the best it had, as long as the folder is where it was.

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

    takes_notes: ClassVar[bool] = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        metric: str = "logloss",
        restore: bool = True,
        rising: bool | None = None,
    ) -> None:
        self.folder, self.watched, self.restore = Path(folder), Watched(metric, rising), restore
        self._session: Any = None  # while training

    def on_begin(self, session: Any) -> None:
        """Remember whose model it is; a folder that cannot be written to is an error now."""
        check_folder(self.folder)
        self._session = session

    def on_pass(self, progress: Progress) -> None:
        """Save what is better than all before."""
        best = self._best()
        if best.take(self.watched.of(progress)):
            self._session.save(self.folder)
        self._session.engine.carried = best.noted(self._session.engine.carried, self._note)

    def on_end(self) -> None:
        """Bring the best model back."""
        if self.restore and self._session is not None and self._best().since > 0:
            self._session.load(self.folder)
        self._session = None

    @property
    def _note(self) -> str:
        return f"keep {self.watched.name} in {self.folder}"

    def _best(self) -> Best:
        """The best so far; what was kept and is gone counts no more."""
        carried = self._session.engine.carried if SavedModel.is_in(self.folder) else Carried()
        return Best.recalled(carried, self._note, self.watched.is_rising)
