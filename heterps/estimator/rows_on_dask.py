"""Rows of a dask.dataframe with what is to be predicted for them: everything is computed where they lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data import Schema
from heterps.errors import DataError
from heterps.estimator.answers import ClassOf, NumberOf, ProbabilitiesOf
from heterps.estimator.features import LABEL, WEIGHT, Features
from heterps.estimator.rows_in_memory import codes_of
from heterps.runtime.cluster.dask_frames import DaskFrame, dask_frame, types_of
from heterps.session import Session

__all__ = ["DaskRows", "dask_answer"]


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Features as a dask.dataframe, targets and weights as its series, with the same partitions."""

    frame: Any
    target: Any
    weight: Any
    client: Any

    def __post_init__(self) -> None:
        for name, series in (("y", self.target), ("sample_weight", self.weight)):
            if series is None:
                continue
            if not hasattr(series, "map_partitions"):
                raise DataError(f"{name} is a {type(series).__name__}: beside a dask.dataframe it is a dask Series")
            if series.npartitions != self.frame.npartitions:
                raise DataError(f"X has {self.frame.npartitions} partitions and {name} has {series.npartitions}")

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the features."""
        return types_of(self.frame._meta)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self._computed(self.frame.map_partitions(len).sum()))

    def _computed(self, what: Any) -> Any:
        return self.client.compute(what, sync=True)

    def classes(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
        """Return the classes in order, and the rows of each."""
        counts = self._computed(self.target.value_counts(dropna=False)).sort_index()
        found = np.asarray(counts.index)
        if found.dtype.kind == "f" and not np.all(found == np.round(found)):
            raise DataError("y holds numbers that are no classes; a Regressor predicts numbers")
        return found, counts.to_numpy(np.float64)

    def coded(self, classes: npt.NDArray[Any], of_class: npt.NDArray[np.float64] | None) -> DaskRows:
        """Return the rows with the number of each one's class for a target, and its class's weight in its own."""
        codes = self.target.map_partitions(_coded, classes, meta=(LABEL, "f8"))
        if of_class is None:
            return replace(self, target=codes)
        weight = codes.map_partitions(_weighed, of_class, meta=(WEIGHT, "f8"))
        return replace(self, target=codes, weight=weight if self.weight is None else weight * self.weight)

    def moments(self) -> tuple[float, float]:
        """Return mean and deviation of the target; 1 where it does not vary."""
        mean, std = self._computed([self.target.mean(), self.target.std(ddof=0)])
        return float(mean), float(std) or 1.0

    def scales(self, features: Features) -> dict[str, tuple[float, float]]:
        """Return mean and deviation of each number."""
        names = list(features.numbers)
        if not names:
            return {}
        numbers = self.frame[names].astype("f8")
        means, stds = self._computed([numbers.mean(), numbers.std(ddof=0)])
        return {name: (float(means[name]), float(stds[name]) or 1.0) for name in names}

    def dataset(self, fields: Schema) -> DaskFrame:
        """Return what is trained on, computed onto the workers that will read it."""
        columns = {LABEL: self.target}
        if "w" in fields:
            columns[WEIGHT] = 1.0 if self.weight is None else self.weight
        return dask_frame(self.frame.assign(**columns), fields, client=self.client)


def _coded(target: Any, classes: npt.NDArray[Any]) -> Any:
    return target._constructor(codes_of(target.to_numpy(), classes), index=target.index, name=LABEL)


def _weighed(codes: Any, of_class: npt.NDArray[np.float64]) -> Any:
    return codes._constructor(of_class[codes.to_numpy(np.int64)], index=codes.index, name=WEIGHT)


def dask_answer(session: Session, X: Any, answer: NumberOf | ProbabilitiesOf | ClassOf, client: Any) -> Any:
    """Return answers for a dask.dataframe as one, with its index and partitions, computed and kept on workers."""
    import dask.dataframe as dd

    futures = session.predict_there(dask_frame(X, client=client, split_cost=1), answer.shaped)
    meta = answer.shaped(np.zeros(0), X._meta.index)
    divisions = X.divisions if X.known_divisions else None
    return dd.from_delayed(futures, meta=meta, divisions=divisions, verify_meta=False)
