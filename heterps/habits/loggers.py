"""The story of a training in files and services that people look at."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from heterps.errors import RunError
from heterps.habits.callbacks import Callback
from heterps.runtime.report.progress import Progress
from heterps.writing import check_folder, check_target

__all__ = ["CSVLog", "MLflowLog", "TensorBoardLog", "numbers_of"]

_COUNTED = ("epoch", "batches", "samples", "seconds", "samples_per_s", "loss", "staleness", "bad_rows", "skipped")


def numbers_of(progress: Progress) -> dict[str, float]:
    """Return all that is one number in a report: what was counted, metrics, those of the validation, busy shares."""
    named: dict[str, Any] = {name: getattr(progress, name) for name in _COUNTED}
    named |= dict(progress.metrics)
    named |= {f"valid_{name}": value for name, value in progress.valid.items()}
    named |= {f"busy_{pool}": share for pool, share in progress.busy.items()}
    return {name: value for name, value in named.items() if isinstance(value, float | int)}


class CSVLog(Callback):
    """Write a line for each report, or each pass, to a CSV file; what comes later has its own columns at the end.

    Parameters
    ----------
    path
        Written anew when a training begins; every line is there as soon as it was reported.
    every
        ``"report"`` or ``"pass"``.
    """

    def __init__(self, path: str | os.PathLike[str], every: str = "report") -> None:
        if every not in ("report", "pass"):
            raise RunError(f"CSVLog(every={every!r}): write 'report' or 'pass'")
        self.path, self.every = Path(path), every
        self._rows: list[dict[str, float]] = []
        self._columns: list[str] = []
        self._file: IO[str] | None = None  # while training

    def on_begin(self, session: Any) -> None:
        """Begin the file."""
        target = check_target(self.path)
        self._rows, self._columns = [], []
        self._file = target.open("w", newline="", encoding="utf-8")

    def on_report(self, progress: Progress) -> None:
        """Write a line."""
        if self.every == "report":
            self._add(numbers_of(progress))

    def on_pass(self, progress: Progress) -> None:
        """Write a line."""
        if self.every == "pass":
            self._add(numbers_of(progress))

    def _add(self, row: dict[str, float]) -> None:
        assert self._file is not None
        self._rows.append(row)
        new = [name for name in row if name not in self._columns]
        if new:  # a header can only be changed by writing all again; that happens once or twice
            self._columns += new
            self._file.seek(0)
            self._file.truncate()
        writer = csv.DictWriter(self._file, self._columns, restval="")
        if new:
            writer.writeheader()
        writer.writerows(self._rows if new else [row])
        self._file.flush()

    def on_end(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class TensorBoardLog(Callback):
    """Write every report for TensorBoard (``pip install heterps[tensorboard]``), by number of samples.

    Parameters
    ----------
    folder
        A run's folder: ``tensorboard --logdir`` shows those below it side by side.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._writer: Any = None  # while training

    def on_begin(self, session: Any) -> None:
        """Open the writer."""
        check_folder(self.folder)
        self._writer = _package("tensorboard.summary", "tensorboard").Writer(str(self.folder))

    def on_report(self, progress: Progress) -> None:
        """Write what was reported."""
        for name, value in numbers_of(progress).items():
            self._writer.add_scalar(_grouped(name), value, progress.samples)

    def on_end(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _grouped(name: str) -> str:
    """Return a name with a slash behind what a page of TensorBoard groups by."""
    group, _, rest = name.partition("_")
    return f"{group}/{rest}" if group in ("valid", "busy") else f"train/{name}"


class MLflowLog(Callback):
    """Log a run to MLflow (``pip install heterps[mlflow]``): settings when it begins, every report by samples.

    Parameters
    ----------
    experiment, run
        Names; MLflow's defaults where they are not given.
    uri
        Where MLflow keeps runs; by default as its own settings say.
    tags
        Of the run.
    """

    def __init__(
        self,
        experiment: str | None = None,
        run: str | None = None,
        uri: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.experiment, self.run, self.uri, self.tags = experiment, run, uri, dict(tags or {})
        self.run_id = ""
        self._client: Any = None  # while training

    def on_begin(self, session: Any) -> None:
        """Begin a run of MLflow."""
        mlflow = _package("mlflow", "mlflow")
        self._client = mlflow.MlflowClient(self.uri)
        name = self.experiment or "Default"
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found is not None else self._client.create_experiment(name)
        self.run_id = self._client.create_run(experiment, run_name=self.run, tags=self.tags).info.run_id
        for key, value in _settings(session).items():
            self._client.log_param(self.run_id, key, value)

    def on_report(self, progress: Progress) -> None:
        """Log what was reported."""
        for name, value in numbers_of(progress).items():
            if math.isfinite(value):  # stores of MLflow refuse others
                self._client.log_metric(self.run_id, name, value, step=progress.samples)

    def on_end(self) -> None:
        """End the run of MLflow."""
        if self._client is not None:
            self._client.set_terminated(self.run_id)
            self._client = None


def _settings(session: Any) -> dict[str, Any]:
    job = session.job
    rules = {"sparse": job.model.sparse.to_json(), "dense": job.model.dense.to_json()}
    return {"batch_size": job.batch_size, "mode": job.mode.name, "seed": job.model.seed, "lanes": job.lanes, **rules}


def _package(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise RunError(f"{module.partition('.')[0]} is not installed: pip install 'heterps[{extra}]'") from error
