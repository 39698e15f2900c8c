"""Numbers for rows."""

from __future__ import annotations

from typing import Any

from heterps.estimator.answers import NumberOf
from heterps.estimator.fitting import TabularEstimator
from heterps.estimator.given_frames import pairs_of
from heterps.estimator.sklearn_base import RegressorMixin, check_is_fitted
from heterps.estimator.tabular_models import Scoring

__all__ = ["Regressor"]


class Regressor(RegressorMixin, TabularEstimator):
    """Predicts numbers, with scikit-learn's methods; parameters as for :class:`~heterps.estimator.Classifier`.

    The target is standardised for training and scaled back in predictions. A graph of your own ends in an ``mse``.
    ``early_stopping_rounds`` looks at the RMSE.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> Regressor:
        """Train afresh; arguments as for :meth:`Classifier.fit <heterps.estimator.Classifier.fit>`."""
        rows = self._rows(X, y, sample_weight, reset=True)
        self._target = rows.moments()
        sets = [self._rows(*pair, reset=False) for pair in pairs_of(eval_set)]
        self._train(rows, Scoring("mse"), self._target, "rmse", sets)
        return self

    def predict(self, X: Any) -> Any:
        """Return a number for each row, as the kind of vector that goes with ``X``."""
        check_is_fitted(self)
        return self._answer(X, NumberOf(*self._target))
