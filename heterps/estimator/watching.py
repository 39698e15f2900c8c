"""Evaluation after each pass: what is remembered, when to stop, and the best model kept."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heterps.data import Dataset
from heterps.session import Session

__all__ = ["Watch"]


class Watch:
    """Evaluates sets of rows after each pass. Less is better for the metric, and the last set decides.

    Parameters
    ----------
    sets
        Data by name.
    metric
        Name, or value, of the metric.
    patience
        Passes without a better value before training stops, and the best model comes back; None: it never does.
    """

    def __init__(self, sets: Mapping[str, Dataset], metric: Any, patience: int | None) -> None:
        self.sets, self.metric, self.patience = sets, metric, patience
        self.results: dict[str, list[float]] = {name: [] for name in sets}
        self.best = -1
        self._folder = tempfile.TemporaryDirectory(prefix="heterps-best-") if patience is not None else None

    def is_over(self, session: Session) -> bool:
        """Evaluate after a pass; say whether training should stop."""
        for name, data in self.sets.items():
            (value,) = session.evaluate(data, [self.metric]).values()
            self.results[name].append(float(value))
        deciding = list(self.results.values())[-1]
        now = len(deciding) - 1
        if self.best < 0 or deciding[now] < deciding[self.best]:
            self.best = now
            if self._folder is not None:
                session.save(self._folder.name)
        return self.patience is not None and now - self.best >= self.patience

    def end(self, session: Session) -> None:
        """Bring back the best model, where one was kept that is not the last."""
        if self._folder is None:
            return
        passes = len(next(iter(self.results.values())))
        if 0 <= self.best < passes - 1:
            session.load(Path(self._folder.name))
        self._folder.cleanup()

    @property
    def best_value(self) -> float:
        """The best value of the set that decides."""
        return list(self.results.values())[-1][self.best]
