"""Tensors and parameters written to files while training goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from heterps.errors import RunError
from heterps.habits.callbacks import Callback
from heterps.later import later
from heterps.runtime.cuts.saved_model import made_folder
from heterps.runtime.report.output import arrow_array
from heterps.runtime.report.progress import Progress
from heterps.writing import check_folder, whole_file

__all__ = ["Dump"]

pq = later("pyarrow.parquet")


class Dump(Callback):
    """Write what is fetched of training batches, and dense parameters, to Parquet files, one of each a report.

    ``fields-BATCHES.parquet`` has a row for each row of the batch that the report shows, with the tensors that
    ``session.train(..., fetch=...)`` names; ``parameters-BATCHES.parquet`` has a row for each parameter, as they are
    between two batches. The numbers are batches applied since training began.

    Parameters
    ----------
    folder
        Made if it is missing; files of the same number are replaced.
    parameters
        Patterns of names, such as ``"fc*"``; none by default.
    every
        ``"report"`` or ``"pass"``.

    Examples
    --------
    >>> with launch(plan) as session:  # doctest: +SKIP
    ...     session.fit(data, fetch=["prediction", "relu0"], callbacks=Dump("dump", ["fc*"]))
    """

    def __init__(
        self, folder: str | os.PathLike[str], parameters: Sequence[str] | str = (), every: str = "report"
    ) -> None:
        if every not in ("report", "pass"):
            raise RunError(f"Dump(every={every!r}): write 'report' or 'pass'")
        self.folder, self.every = Path(folder), every
        self.patterns = (parameters,) if isinstance(parameters, str) else tuple(parameters)
        self._session: Any = None  # while training
        self._names: tuple[str, ...] = ()

    def on_begin(self, session: Any) -> None:
        """Look whether there is such a folder, and such parameters."""
        check_folder(self.folder)
        made_folder(self.folder)
        known = [spec.name for spec in session.job.model.parameters]
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise RunError(f"no parameter is called {pattern!r}; there are {', '.join(known) or 'none'}")
        self._names = tuple(name for name in known if any(fnmatchcase(name, each) for each in self.patterns))
        self._session = session

    def on_report(self, progress: Progress) -> None:
        """Write files."""
        if self.every == "report" and progress.batches:
            self._write(progress)

    def on_pass(self, progress: Progress) -> None:
        """Write files."""
        if self.every == "pass" and progress.batches:
            self._write(progress)

    def _write(self, progress: Progress) -> None:
        if progress.fetched:
            columns = {name: arrow_array(np.atleast_1d(values)) for name, values in progress.fetched.items()}
            self._store("fields", progress.batches, pa.table(columns))
        if self._names:
            engine = self._session.engine
            parts = engine.at_rest(lambda: engine.each_shard(_parameters, self._names))
            self._store("parameters", progress.batches, _table({k: v for part in parts for k, v in part.items()}))

    def _store(self, what: str, batches: int, table: pa.Table) -> None:
        with whole_file(self.folder / f"{what}-{batches:09d}.parquet", "wb") as file:
            pq.write_table(table, file)

    def on_end(self) -> None:
        """Let go of the session."""
        self._session = None


def _parameters(shard: Any, host: int, names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a host by name; it runs there."""
    with shard.cut() as cut:
        dense = cut.dense
        shapes = {spec.name: spec.shape for spec in dense.specs}
        there = [name for name in names if name in shapes]
        return {name: np.array(cut.dense_values[dense.where[name]]).reshape(shapes[name]) for name in there}


def _table(values: dict[str, Any]) -> pa.Table:
    shapes = pa.array([list(array.shape) for array in values.values()], pa.list_(pa.int64()))
    flat = pa.array([array.reshape(-1) for array in values.values()], pa.list_(pa.float32()))
    return pa.table({"name": pa.array(list(values), pa.string()), "shape": shapes, "values": flat})
