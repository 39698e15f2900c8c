"""Classes of rows: two or many, numbers or words."""

from __future__ import annotations

from typing import Any

from heterps.estimator.answers import ClassOf, ProbabilitiesOf
from heterps.estimator.fitting import TabularEstimator
from heterps.estimator.given_frames import pairs_of
from heterps.estimator.sklearn_base import ClassifierMixin, check_is_fitted
from heterps.estimator.tabular_models import Scoring
from heterps.habits.weighting import class_weights

__all__ = ["Classifier"]


class Classifier(ClassifierMixin, TabularEstimator):
    """Predicts classes, with scikit-learn's methods.

    Parameters
    ----------
    model
        ``"linear"``, ``"dnn"``, ``"wide_deep"``, ``"deepfm"``, ``"dcn"``; for two classes also one of
        :mod:`heterps.models` by name, such as ``"dlrm"``; a graph; or a function that returns one over
        ``ids`` (categories), ``x`` (numbers) and ``y``, called with those of ``slots``, ``dense`` and ``outputs`` that
        it takes. Two classes need a logloss, more a softmax_cross_entropy.
    settings
        Arguments of the model: ``{"dim": 8, "hidden": (64, 32)}`` for those with a name.
    epochs, batch_size
        Passes over the data, and rows a batch. By default about 1500 batches are trained, in 1 to 100 passes.
    categorical
        Names or positions of columns that are categories though they hold numbers. Text always is.
    sparse, dense, mode, device
        As for :func:`~heterps.launching.launch`; by default ``ElementAdaGrad(lr=0.05)`` and ``Adam(lr=0.005)``.
    shuffle
        ``"local"``, ``"global"`` or ``"none"``.
    class_weight
        ``"balanced"``, or a weight by class.
    early_stopping_rounds
        Passes without a better logloss on the last ``eval_set`` before training stops and the best model comes back.
    random_state
        Seed of first values and shuffling.
    client
        A Dask client: training and prediction run on its cluster. A dask.dataframe uses the current one by default.
    engine
        ``"auto"``: in this thread for rows in memory without a client, else on Dask.

    Attributes
    ----------
    classes_
        The classes, sorted.
    n_iter_, best_iteration_, best_score_, evals_result_
        Passes made; with ``eval_set`` the best of them (from 0), its logloss, and the logloss of each set and pass.

    Examples
    --------
    >>> import heterps as hps, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> model = hps.Classifier().fit(x, np.where(x[:, 0] > 0, "yes", "no"))
    >>> float(model.score(x, np.where(x[:, 0] > 0, "yes", "no"))) > 0.9
    True
    """

    def __init__(
        self,
        model: Any = "deepfm",
        *,
        settings: Any = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        categorical: Any = "auto",
        sparse: Any = None,
        dense: Any = None,
        mode: Any = None,
        shuffle: Any = "local",
        class_weight: Any = None,
        early_stopping_rounds: int | None = None,
        random_state: Any = 0,
        client: Any = None,
        engine: str = "auto",
        device: str = "auto",
    ) -> None:
        super().__init__(
            model,
            settings=settings,
            epochs=epochs,
            batch_size=batch_size,
            categorical=categorical,
            sparse=sparse,
            dense=dense,
            mode=mode,
            shuffle=shuffle,
            early_stopping_rounds=early_stopping_rounds,
            random_state=random_state,
            client=client,
            engine=engine,
            device=device,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> Classifier:
        """Train afresh.

        Parameters
        ----------
        X
            An array, a pandas, polars or Arrow frame, columns by name, or a dask.dataframe.
        y
            The class of each row.
        sample_weight
            The weight of each row in the loss.
        eval_set
            ``(X, y)``, or several of them: evaluated after each pass.
        """
        rows = self._rows(X, y, sample_weight, reset=True)
        self.classes_, counts = rows.classes()
        coded = rows.coded(self.classes_, class_weights(self.class_weight, self.classes_, counts))
        sets = [self._rows(*pair, reset=False).coded(self.classes_, None) for pair in pairs_of(eval_set)]
        self._train(coded, self._task(), (0.0, 1.0), self._metric(), sets)
        return self

    def _task(self) -> Scoring:
        """Two classes, or one, have one score."""
        many = len(self.classes_) > 2
        return Scoring("softmax_cross_entropy", len(self.classes_)) if many else Scoring("logloss")

    def _metric(self) -> str:
        return "cross_entropy" if len(self.classes_) > 2 else "logloss"

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row, as the kind of vector that goes with ``X``."""
        check_is_fitted(self)
        return self._answer(X, ClassOf(self.classes_))

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, in the order of ``classes_``, as the kind of frame that ``X`` is."""
        check_is_fitted(self)
        return self._answer(X, ProbabilitiesOf(self.classes_))
