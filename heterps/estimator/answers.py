"""From what a model predicts to what an estimator answers; on workers for a dask.dataframe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import DataError

__all__ = ["ClassOf", "NumberOf", "ProbabilitiesOf"]


@dataclass(frozen=True)
class NumberOf:
    """A number, scaled back to what the target was."""

    mean: float
    std: float

    def values(self, predicted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one number a row."""
        return _finite(predicted) * self.std + self.mean

    def shaped(self, predicted: npt.NDArray[Any], index: Any) -> Any:
        """Return them as a pandas Series."""
        import pandas

        return pandas.Series(self.values(predicted), index=index)


@dataclass(frozen=True, eq=False)
class ProbabilitiesOf:
    """A probability for each class."""

    classes: npt.NDArray[Any]

    def values(self, predicted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a row of probabilities for each row."""
        p = _finite(predicted)
        if len(self.classes) == 1 or not len(p):
            return np.ones((len(p), len(self.classes)))
        if p.ndim == 1:
            return np.stack([1 - p, p], axis=1)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def shaped(self, predicted: npt.NDArray[Any], index: Any) -> Any:
        """Return them as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self.values(predicted), index=index, columns=[str(one) for one in self.classes])


@dataclass(frozen=True, eq=False)
class ClassOf:
    """The most probable class."""

    classes: npt.NDArray[Any]

    def values(self, predicted: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a class for each row."""
        found: npt.NDArray[Any] = self.classes[ProbabilitiesOf(self.classes).values(predicted).argmax(axis=1)]
        return found

    def shaped(self, predicted: npt.NDArray[Any], index: Any) -> Any:
        """Return them as a pandas Series."""
        import pandas

        return pandas.Series(self.values(predicted), index=index)


def _finite(predicted: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    values = np.asarray(predicted, np.float64)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=tuple(range(1, values.ndim))))
    if len(bad):
        raise DataError(
            f"{len(bad)} rows have no prediction, the first is row {bad[0]}: a value of theirs cannot be used"
        )
    return values
