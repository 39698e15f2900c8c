"""Make probabilities of scores: isotonic and Platt, and the picture that shows whether they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heterps.errors import DataError, UnknownKindError
from heterps.habits.reliability import Reliability
from heterps.writing import write_whole

__all__ = ["Calibration", "calibrate"]

F64 = npt.NDArray[np.float64]
Method = Literal["isotonic", "platt"]
_EDGE = 1e-7  # predictions are probabilities between this and one less this


@dataclass(frozen=True)
class Calibration:
    """A rising function from predictions to probabilities, learnt on data that the model was not trained on.

    Parameters
    ----------
    method
        How it was learnt.
    knots, values
        Predictions, ascending, and what they become; between them linearly. Platt's has none.
    slope, shift
        Platt: ``sigmoid(slope * logit + shift)``.
    before, after
        How well predictions agreed with what happened, on the data that it was learnt on.
    """

    method: str
    before: Reliability
    after: Reliability
    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    slope: float = 1.0
    shift: float = 0.0

    def __call__(self, predictions: npt.ArrayLike) -> F64:
        """Return probabilities for predictions of the model; what is no number stays none."""
        given = np.asarray(predictions, np.float64)
        if self.method == "platt":
            return _sigmoid(self.slope * _logit(given) + self.shift)
        return np.asarray(np.interp(given, self.knots, self.values))

    def plot(self) -> str:
        """Return the reliability before and after as an SVG; a notebook shows the object as that."""
        return self.before.drawn(f"calibrated, {self.method}", self.after)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draw to a file."""
        write_whole(path, self.plot())

    def _repr_svg_(self) -> str:
        return self.plot()

    def __str__(self) -> str:
        return f"{self.method}: expected calibration error {self.before.error:.4f} -> {self.after.error:.4f}"


def calibrate(session: Any, dataset: Any, method: Method = "isotonic", label: str = "y") -> Calibration:
    """Learn how a model's predictions become probabilities, on data it was not trained on.

    Parameters
    ----------
    session
        An open session with a model that predicts one probability.
    dataset
        Data with labels 0 and 1.
    method
        ``"isotonic"``: any rising function, for thousands of rows and more; ``"platt"``: a line through the logits,
        for few.
    label
        The column of labels.

    Examples
    --------
    >>> calibration = calibrate(session, held_out)  # doctest: +SKIP
    >>> calibration(session.predict(new_rows))  # doctest: +SKIP
    """
    if method not in _FITS:
        raise UnknownKindError(f"no calibration is called {method!r}; there are {', '.join(_FITS)}")
    found = session.predict(dataset, fetch=["prediction", label])
    predictions, labels = (np.asarray(found[name], np.float64).reshape(-1) for name in ("prediction", label))
    return fit(predictions, labels, method)


def fit(predictions: F64, labels: F64, method: Method) -> Calibration:
    """Learn a calibration of predictions and labels; rows where one is missing are left out."""
    whole = np.isfinite(predictions) & np.isfinite(labels)
    predictions, labels = predictions[whole], labels[whole]
    if not len(labels) or labels.min() < 0 or labels.max() > 1 or labels.min() == labels.max():
        raise DataError("a calibration needs rows with labels 0 and rows with labels 1")
    learnt = _FITS[method](predictions, labels)
    before = Reliability.of(predictions, labels)
    found = Calibration(method, before, before, **learnt)
    return Calibration(method, before, Reliability.of(found(predictions), labels), **learnt)


def _isotonic(predictions: F64, labels: F64) -> dict[str, Any]:
    """Least squares among all rising functions (pool adjacent violators); equal predictions are one."""
    from scipy.optimize import isotonic_regression  # here and below: slow to import, and seldom wanted

    knots, where, counts = np.unique(predictions, return_inverse=True, return_counts=True)
    means = np.bincount(where, labels) / counts
    values = isotonic_regression(means, weights=counts).x
    ends = np.flatnonzero(np.diff(values, prepend=np.nan, append=np.nan) != 0)  # where a level begins or has ended
    kept = np.unique(np.clip(np.concatenate([ends, ends - 1]), 0, len(knots) - 1))
    return {"knots": tuple(knots[kept].tolist()), "values": tuple(values[kept].tolist())}


def _platt(predictions: F64, labels: F64) -> dict[str, Any]:
    """Likeliest slope and shift, with Platt's softened targets, so that a few clean rows do not give certainty."""
    from scipy.optimize import minimize

    x, positive = _logit(predictions), labels.sum()
    high, low = (positive + 1) / (positive + 2), 1 / (len(labels) - positive + 2)
    target = low + labels * (high - low)

    def loss(at: F64) -> tuple[float, F64]:
        z = at[0] * x + at[1]
        off = _sigmoid(z) - target
        return float(np.sum(np.logaddexp(0, z) - target * z)), np.array([np.dot(off, x), off.sum()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B")
    return {"slope": float(found.x[0]), "shift": float(found.x[1])}


_FITS = {"isotonic": _isotonic, "platt": _platt}


def _logit(p: F64) -> F64:
    clipped = np.clip(p, _EDGE, 1 - _EDGE)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _sigmoid(z: F64) -> F64:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))
