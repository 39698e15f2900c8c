"""What classifiers and regressors share: from rows to a trained session, and from a session to answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from heterps.data import Dataset, Schema
from heterps.errors import DataError
from heterps.estimator.answers import ClassOf, NumberOf, ProbabilitiesOf
from heterps.estimator.features import Features
from heterps.estimator.fitted_model import FittedModel
from heterps.estimator.given_frames import as_matrix, as_vector, is_textual, kind_of, plain_vector, table_of
from heterps.estimator.rows_in_memory import MemoryRows
from heterps.estimator.rows_on_dask import DaskRows, dask_answer
from heterps.estimator.sklearn_base import (
    BaseEstimator,
    check_is_fitted,
    check_random_state,
    checked_weights,
    validate_data,
)
from heterps.estimator.tabular_models import Scoring, graph_for
from heterps.estimator.watching import Watch
from heterps.graph.weighting import weighted as with_weight
from heterps.launching import launch
from heterps.planner.plan import Plan
from heterps.session import Session
from heterps.tables import Adam, ElementAdaGrad

__all__ = ["Rows", "TabularEstimator"]

Answer = NumberOf | ProbabilitiesOf | ClassOf
Rows = MemoryRows | DaskRows
_NONE = "no_validation"  # scikit-learn's word for a target that is not given, because none is wanted
_BATCHES = 1500  # about so many are trained where nobody says how many passes
_MOST_PASSES, _LEAST_BATCH, _MOST_BATCH = 100, 16, 1024


class TabularEstimator(BaseEstimator):
    """Trains a model on tables; :class:`~heterps.estimator.Classifier` and Regressor say what is predicted.

    The model is held from ``fit`` on, until :meth:`close`, the end of a ``with`` block or of the object.
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
        early_stopping_rounds: int | None = None,
        random_state: Any = 0,
        client: Any = None,
        engine: str = "auto",
        device: str = "auto",
    ) -> None:
        self.model, self.settings, self.epochs, self.batch_size = model, settings, epochs, batch_size
        self.categorical, self.sparse, self.dense, self.mode, self.shuffle = categorical, sparse, dense, mode, shuffle
        self.early_stopping_rounds, self.random_state = early_stopping_rounds, random_state
        self.client, self.engine, self.device = client, engine, device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing number counts as the mean, a missing category is one of its own
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """A pickle has no client: where it is opened, another cluster or none is at hand."""
        return dict(super().__getstate__()) | {"client": None}

    # --- rows

    def _rows(self, X: Any, y: Any, sample_weight: Any = None, *, reset: bool) -> Rows:
        """Return rows with targets, checked as scikit-learn checks them; ``reset`` for those that are trained on."""
        if kind_of(X) == "dask":
            self._note_columns([str(name) for name in X.columns], reset)
            return DaskRows(X, y, sample_weight, self._client())
        table, target = self._checked(X, y, reset=reset)
        weight = plain_vector(sample_weight)
        if weight is not None:
            weight = np.asarray(checked_weights(weight, np.empty((table.num_rows, 0)), dtype=np.float64))
        return MemoryRows(table, target, weight)

    def _checked(self, X: Any, y: Any = _NONE, *, reset: bool) -> tuple[pa.Table, Any]:
        """Return the columns by name and the target."""
        kind, y = kind_of(X), plain_vector(y)
        if kind == "array":
            dtype = None if is_textual(X) else "numeric"
            how: dict[str, Any] = {"dtype": dtype, "ensure_all_finite": "allow-nan" if dtype else False}
            checked = validate_data(self, X, y, reset=reset, **how)
            X, y = checked if isinstance(checked, tuple) else (checked, None)
            return table_of(X, kind), y
        table = table_of(X, kind)
        self._note_columns(table.column_names, reset)
        if isinstance(y, str) and y == _NONE:
            return table, None
        y = validate_data(self, _NONE, y)
        if len(y) != table.num_rows:
            raise DataError(f"X has {table.num_rows} rows and y has {len(y)}")
        return table, y

    def _note_columns(self, names: Sequence[str], reset: bool) -> None:
        """Remember what the columns of a frame are called; later ones are found by name, in any order."""
        if reset:
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)

    # --- training

    def _train(self, rows: Rows, task: Scoring, target: tuple[float, float], metric: str, sets: Sequence[Rows]) -> None:
        """Train on rows, and keep the model; numbers that are predicted are scaled by ``target``."""
        if self.early_stopping_rounds is not None and not sets:
            raise DataError("early_stopping_rounds needs eval_set: rows that say when training gets worse")
        features, weighted = Features.of(rows.schema, self.categorical), rows.weight is not None
        fields = _scaled_label(features.fields(rows.scales(features), weighted=weighted), target)
        graph = graph_for(self.model, self.settings, task, len(features.categories), len(features.numbers))
        count = rows.count
        batch_size = self.batch_size or _batch_size(count)
        epochs = self.epochs or min(_MOST_PASSES, max(1, math.ceil(_BATCHES * batch_size / max(count, 1))))
        data = rows.dataset(fields).shuffle(self.shuffle)
        named = {f"validation_{i}": each.dataset(fields) for i, each in enumerate(sets)}
        watch = Watch(named, metric, self.early_stopping_rounds) if named else None
        self.close()
        session = self._launched(Plan.fused(with_weight(graph) if weighted else graph, batch_size=batch_size), rows)
        try:
            self.n_iter_ = _passes(session, data, epochs, watch)
        except BaseException:
            session.close()
            raise
        self._fitted = FittedModel(session)
        if watch is not None:
            self._tell(watch, metric, target[1] if metric == "rmse" else 1.0)

    def _launched(self, plan: Plan, rows: Rows) -> Session:
        return launch(
            plan,
            self._client() if isinstance(rows, DaskRows) else self.client,
            engine=self._engine(rows),
            mode=self.mode,
            sparse=self.sparse or ElementAdaGrad(lr=0.05),
            dense=self.dense or Adam(lr=0.005),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            metrics=[],
            device=self.device,
        )

    def _engine(self, rows: Rows) -> str:
        """Rows in memory are trained on in this thread, unless a cluster is named; those of a cluster there."""
        if self.engine != "auto":
            return self.engine
        return "inline" if self.client is None and isinstance(rows, MemoryRows) else "dask"

    def _client(self) -> Any:
        from heterps.runtime.cluster.dask_frames import current_client

        return self.client or current_client()

    def _tell(self, watch: Watch, metric: str, scale: float) -> None:
        self.evals_result_ = {name: {metric: [v * scale for v in found]} for name, found in watch.results.items()}
        self.best_iteration_, self.best_score_ = watch.best, watch.best_value * scale

    # --- answers

    def _answer(self, X: Any, answer: Answer) -> Any:
        kind = kind_of(X)
        if kind == "dask":
            return dask_answer(self.session, X, answer, self._client())
        table, _ = self._checked(X, reset=False)
        values = answer.values(np.asarray(self.session.predict(table)))
        if isinstance(answer, ProbabilitiesOf):
            return as_matrix(values, list(answer.classes), X, kind)
        return as_vector(values, X, kind)

    # --- life

    @property
    def session(self) -> Session:
        """The session that holds the trained tables: ``save``, ``evaluate`` and all the rest."""
        check_is_fitted(self)
        return self._fitted.session

    def close(self) -> None:
        """Give the tables back; the estimator can be fitted again."""
        fitted = self.__dict__.pop("_fitted", None)
        if fitted is not None:
            fitted.close()

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _batch_size(rows: int) -> int:
    return min(_MOST_BATCH, max(_LEAST_BATCH, 1 << int(math.log2(rows / 16 + 1))))


def _scaled_label(fields: Schema, target: tuple[float, float]) -> Schema:
    (recipe,) = fields["y"].of
    changed: dict[str, Any] = {"mean": target[0], "std": target[1]}
    scaled = replace(fields["y"], of=(replace(recipe, **changed),))
    return Schema(tuple(scaled if item.name == "y" else item for item in fields))


def _passes(session: Session, data: Dataset, epochs: int, watch: Watch | None) -> int:
    """Train; return how many passes were made."""
    if watch is None:
        for _ in session.train(data, epochs):
            pass
        return epochs
    for done in range(epochs):
        for _ in session.train(data):
            pass
        if watch.is_over(session) or done + 1 == epochs:
            break
    watch.end(session)
    return done + 1
