"""Evaluation after each pass: what is remembered, when to stop, and the best model kept."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heterps.data import Dataset
from heterps.habits.improvement import Best
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
        self._best = Best(rising=False)
        self._folder = tempfile.TemporaryDirectory(prefix="heterps-best-") if patience is not None else None

    def is_over(self, session: Session) -> bool:
        """Evaluate after a pass; say whether training should stop."""
        for name, data in self.sets.items():
            (value,) = session.evaluate(data, [self.metric]).values()
            self.results[name].append(float(value))
        if self._best.take(self._deciding[-1]) and self._folder is not None:
            session.save(self._folder.name)
        return self.patience is not None and self._best.since >= self.patience

    @property
    def _deciding(self) -> list[float]:
        return list(self.results.values())[-1]

    @property
    def best(self) -> int:
        """The number of the pass with the best value; -1 where none is a number."""
        return len(self._deciding) - 1 - self._best.since if self._best.since < len(self._deciding) else -1

    def end(self, session: Session) -> None:
        """Bring back the best model, where one was kept that is not the last."""
        if self._folder is None:
            return
        if self._best.since > 0 and self.best >= 0:
            session.load(Path(self._folder.name))
        self._folder.cleanup()

    @property
    def best_value(self) -> float:
        """The best value of the set that decides."""
        return self._best.value
