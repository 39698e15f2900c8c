"""``fit``, ``predict``, ``score`` around a session, for the habit of scikit-learn and xgboost.dask."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from heterps.data import Dataset, arrays, frame
from heterps.errors import DataError, RunError
from heterps.graph import Graph
from heterps.planner.plan import Plan
from heterps.runtime.batch.inference import Values
from heterps.session import Session, launch

__all__ = ["Estimator"]


class Estimator:
    """A model that holds its session open from ``fit`` to ``close``.

    Parameters
    ----------
    graph
        The model, or a function of no arguments that returns it.
    epochs, batch_size, shuffle
        Passes over the data, rows per batch, and how rows are mixed (see :class:`~heterps.data.Shuffle`).
    client
        A Dask client; None as for :func:`~heterps.session.launch`.
    plan
        Decides batch size and placement; None puts everything into one stage.
    **options
        For :func:`~heterps.session.launch`: ``mode``, ``sparse``, ``dense``, ``seed``, ``engine``, ...

    Examples
    --------
    >>> with Estimator(wide_deep(), epochs=2) as model:  # doctest: +SKIP
    ...     model.fit({"ids": ids, "x": x}, y)
    ...     model.score({"ids": test_ids, "x": test_x}, test_y)
    """

    def __init__(
        self,
        graph: Graph | Callable[[], Graph],
        *,
        epochs: int = 1,
        batch_size: int = 1024,
        shuffle: str = "local",
        client: Any = None,
        plan: Plan | None = None,
        **options: Any,
    ) -> None:
        self.graph = graph if isinstance(graph, Graph) else graph()
        self.epochs, self.batch_size, self.shuffle, self.client = epochs, batch_size, shuffle, client
        self.plan, self.options = plan or Plan.fused(self.graph, batch_size=batch_size), options
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The session that holds the trained tables."""
        if self._session is None:
            raise RunError("the model is not trained: call fit first")
        return self._session

    def fit(self, X: Any, y: Any = None) -> Estimator:
        """Train afresh.

        Parameters
        ----------
        X
            A Dataset, columns by name (arrays), or a pandas or Arrow frame.
        y
            The label; None if it is in ``X``.
        """
        data = self._dataset(X, y)
        self.close()
        self._session = launch(self.plan, self.client, **self.options)
        for _ in self._session.train(data.shuffle(self.shuffle), self.epochs):  # type: ignore[arg-type]
            pass
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Estimator:
        """Train for one more pass, or begin."""
        if self._session is None:
            self._session = launch(self.plan, self.client, **self.options)
        for _ in self._session.train(self._dataset(X, y).shuffle(self.shuffle)):  # type: ignore[arg-type]
            pass
        return self

    def predict(self, X: Any) -> Values:
        """Return what the loss's inputs predict: probabilities for a logloss, values for ``mse``."""
        found = self.session.predict(self._dataset(X, None))
        assert not isinstance(found, Path | dict)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return the first metric of :meth:`Session.evaluate`: AUC for a logloss."""
        return float(next(iter(self.session.evaluate(self._dataset(X, y)).values())))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the model; :func:`~heterps.session.load` opens it."""
        return self.session.save(path)

    def close(self) -> None:
        """Give the tables back."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Estimator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _dataset(self, X: Any, y: Any) -> Dataset:
        label = self.graph[self.graph.loss].inputs[1]
        if isinstance(X, Dataset):
            if y is not None:
                raise DataError("y is given beside a Dataset, which has its own label")
            return X
        if isinstance(X, Mapping):
            return arrays({**X} if y is None else {**X, label: np.asarray(y)}, {} if y is None else {label: "label"})
        if isinstance(X, pa.Table):
            X = X if y is None else X.append_column(label, pa.array(np.asarray(y)))
            return frame(X, label=label if label in X.column_names else "")
        if hasattr(X, "assign"):
            X = X if y is None else X.assign(**{label: np.asarray(y)})
            return frame(X, label=label if label in X.columns else "")
        raise DataError(f"X is {type(X).__name__}; give a Dataset, columns by name, or a frame")
