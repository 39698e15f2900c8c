"""What can be done with a model while its tables live: train, evaluate, predict, save."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from heterps.choices import (
    Fetch,
    Metrics,
    evaluation_metrics,
    named,
    watched_tensors,
)
from heterps.data import Dataset
from heterps.data.core.data_form import DataForm, fitted
from heterps.data.sources.given import given_data
from heterps.errors import DataError, GraphError, RunError
from heterps.export.exporting import Onnx, export_model
from heterps.habits.callbacks import Listener, heard, listeners
from heterps.habits.weighting import ClassWeight, weighted_data
from heterps.html_table import html_table
from heterps.metrics import Metric
from heterps.metrics.label_counts import LabelCounts
from heterps.planner.plan import Plan
from heterps.planner.show.short import draw_plan, plan_lines
from heterps.runtime.batch.columns import check_columns
from heterps.runtime.batch.inference import (
    PREDICTION,
    Cell,
    Values,
    check_readable,
    columns_read,
    joined,
    sources_of,
)
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.labelling import check_labels, label_bounds, no_rows
from heterps.runtime.cuts.carried import Carried
from heterps.runtime.cuts.folder_lock import FolderLock
from heterps.runtime.cuts.saved_model import SavedModel, made_folder
from heterps.runtime.cuts.saving import load_one_table, load_tables, save_tables, shrink_tables
from heterps.runtime.report.awaited import AwaitedReports
from heterps.runtime.report.epochs import Epochs
from heterps.runtime.report.history import History
from heterps.runtime.report.lined_up import filled, placed
from heterps.runtime.report.measured import Measured
from heterps.runtime.report.output import BAD_ROW, ENDINGS, write_parquet
from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.runtime.report.progress import Progress
from heterps.runtime.report.rowless import never_empty
from heterps.runtime.run.engines import Engine, PredictsThere, Scalable, Watchable
from heterps.serving.manifest import Encoding, ExportKind, FileFormat
from heterps.tables import Kind
from heterps.writing import check_folder, check_target

__all__ = ["Session"]

_SPLITS_PER_LANE = 4  # so that lanes which end early find more, and the last ones are short


class Session:
    """Tables that live while it is open, and what can be done with them. Made by :func:`launch`."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        lock: FolderLock | None = None,
        form: DataForm | None = None,
        name: str | None = None,
    ) -> None:
        self.plan, self.engine = plan, engine
        self.name = name or Path(sys.argv[0]).stem or "session"
        """What those who watch its trainings see them called."""
        self.form = form  # how rows became batches in training; saved with the model
        self._lock = lock  # of the folder for cuts, while the session is open
        self._open = True
        self._profile = PhaseProfile()

    @property
    def job(self) -> Job:
        """What the engine was asked to run."""
        return self.engine.job

    # --- training

    def train(
        self,
        dataset: Any,
        epochs: int = 1,
        valid: Any = None,
        fetch: Fetch | None = None,
        *,
        callbacks: Sequence[Listener] | Listener = (),
        class_weight: ClassWeight | None = None,
        allow_empty: bool = False,
    ) -> Iterator[Progress]:
        """Train, yielding Progress about once a second and at the end.

        Stop early by leaving the loop: what was trained stays. Columns are checked before anything runs.

        Parameters
        ----------
        dataset
            Training data, or its path. How its rows become batches is remembered, saved with the model, and used for
            all data after it whose schema is not given but guessed.
        epochs
            Passes over it.
        valid
            Evaluated after each pass; the results stand in ``Progress.valid`` of its last report.
        fetch
            Names of ops (or outputs, or ``"prediction"``), or ``{name: op}``: their values for a recent batch stand in
            ``Progress.fetched``.
        callbacks
            Told how training goes, and able to end it: :class:`~heterps.habits.Callback` objects, or functions that
            take a Progress; also a single one.
        class_weight
            What rows of each class (label) weigh in the loss: ``{1: 10.0}``, 1 for those not named; or ``"balanced"``,
            so that all classes weigh the same, which takes a pass over the labels first. The loss must have a weight
            (:func:`~heterps.graph.weighting.weighted`); a weight that the data has already is multiplied.
        allow_empty
            Accept data without a single row that can be used; by default that is an error at the end.
        """
        self._check_open()
        told = listeners(callbacks)
        if epochs < 1:
            raise DataError(f"epochs is {epochs}, must be at least 1")
        needy = next((type(each).__name__ for each in told if each.needs_valid), None)
        if needy is not None and valid is None:
            raise RunError(f"{needy} goes by the validation after each pass: give train(valid=...), or --valid")
        inputs = {op.name for op in self.plan.graph.inputs}
        data = fitted(given_data(dataset, self.form, inputs), self.form, inputs)
        weighted = self._weighted(data, class_weight) if class_weight is not None else data
        given = set(weighted.schema.names) - set(data.schema.names)
        check_columns(self.plan.graph, weighted.schema)
        if not allow_empty:
            check_labels(self.plan.graph, data)
        self._remember(DataForm.of(data))
        if valid is not None:
            valid = fitted(given_data(valid, self.form, inputs), self.form, inputs)
            check_columns(self.plan.graph, valid.schema, inputs - given)
        labelled = self._spread(weighted).labels_within(label_bounds(self.plan.graph))
        apart = valid is not None or any(each.takes_notes for each in told)
        reports = self._train(labelled, epochs, valid, watched_tensors(self.plan.graph, fetch), apart)
        watched = self._watched(reports if allow_empty else never_empty(reports, labelled))
        return AwaitedReports(heard(watched, told, self) if told else watched)

    def _weighted(self, data: Dataset, class_weight: ClassWeight) -> Dataset:
        def count(classes: int) -> list[int]:
            counts, labelled = LabelCounts(classes), data.labels_within(label_bounds(self.plan.graph)).shuffle("none")
            rows: list[int] = Measured.of(self.engine.infer(labelled, [counts]), [counts]).results[counts.name]
            return rows

        return weighted_data(self.plan.graph, data, class_weight, count)

    def _remember(self, form: DataForm) -> None:
        """Keep how rows become batches, here and beside the cuts; ready-made columns say nothing about rows."""
        if form.has_recipes:
            self.form = form
            if self._lock is not None:
                SavedModel.of(self.job, form).write(self._lock.folder)

    def _data(self, given: Any, metrics: Sequence[Metric] = (), fetch: Iterable[str] = ()) -> Dataset:
        """Return what was given as a dataset whose columns are made as in training."""
        graph = self.plan.graph
        ops = (graph.outputs.get(name, name) for name in fetch)
        needed = columns_read(self.job, metrics, [op for op in ops if op == PREDICTION or op in graph])
        return fitted(given_data(given, self.form, needed), self.form, needed)

    def _spread(self, dataset: Dataset) -> Dataset:
        """Give every lane something to read. Lanes belong to the plan: any number of workers sees the same Splits.

        A lane that is alone reads one Split after another anyway, and mixes rows better in a large one.
        """
        lanes = self.plan.lanes
        return dataset.spread(_SPLITS_PER_LANE * lanes, self.plan.batch_size) if lanes > 1 else dataset

    def _watched(self, reports: Generator[Progress, None, None]) -> Generator[Progress, None, None]:
        history = History()
        with closing(reports), self._telling() as tell:  # leaving the loop ends training at once
            for progress in reports:
                self._profile = progress.profile
                history.add(progress.point())
                tell(progress)
                yield replace(progress, history=history)

    def _telling(self) -> AbstractContextManager[Callable[[Progress], None]]:
        """What tells those who watch of a report; nobody can watch an engine of this thread."""
        if not isinstance(self.engine, Watchable):
            return nullcontext(lambda progress: None)
        return self.engine.telling({"name": self.name, **self._about_plan})

    @cached_property
    def _about_plan(self) -> dict[str, Any]:
        return {"about": plan_lines(self.plan), "picture": draw_plan(self.plan)}

    def profile(self) -> PhaseProfile:
        """Return where the time of the last training went, by pool and phase; ``.save("profile.svg")`` draws it."""
        return self._profile

    def _train(
        self, dataset: Dataset, epochs: int, valid: Dataset | None, fetch: Mapping[str, str], apart: bool
    ) -> Generator[Progress, None, None]:
        """Train in one run, or in one for each pass: then something comes between them."""
        self.engine.carried = Carried()  # unless it is resumed: then the engine finds what the cut has
        if not apart:
            yield from self.engine.train(dataset, epochs, fetch)
            return
        start, passes = self.engine.passes, Epochs(epochs)
        while self.engine.passes < start + epochs:  # a resumed session begins with the pass it was in
            for progress in self.engine.train(dataset, 1, fetch):
                epoch = self.engine.passes - start + 1
                measured = self.evaluate(valid) if valid is not None and progress.done else {}
                yield passes.report(progress, epoch, measured)

    def scale(self, *, servers: int | None = None, io: int | None = None, compute: int | None = None) -> None:
        """Do with fewer workers from now on; call it in the loop over :meth:`train`, which goes on meanwhile.

        Those that leave give their Splits to others at a batch boundary; shard hosts of a server that leaves are copied
        to others first, so nothing returns to a cut. Then they are retired from the cluster. More workers need no call:
        start them, and a training takes them in.

        Parameters
        ----------
        servers, io, compute
            Workers of each pool that are to stay.
        """
        self._check_open()
        if not isinstance(self.engine, Scalable):
            raise RunError("this engine has no workers that could leave; use engine='dask'")
        wanted = {"servers": servers, "io": io, "compute": compute}
        self.engine.scale({role: count for role, count in wanted.items() if count is not None})

    def fit(
        self,
        dataset: Any,
        epochs: int = 1,
        valid: Any = None,
        fetch: Fetch | None = None,
        *,
        callbacks: Sequence[Listener] | Listener = (),
        class_weight: ClassWeight | None = None,
        allow_empty: bool = False,
    ) -> Progress:
        """Train with a progress bar and return the last report; arguments as for :meth:`train`."""
        from heterps.runtime.report.meter import metered  # what draws the bar takes long to import

        last = None
        reports = self.train(
            dataset, epochs, valid, fetch, callbacks=callbacks, class_weight=class_weight, allow_empty=allow_empty
        )
        for progress in metered(reports):
            last = progress
        assert last is not None
        return last

    # --- inference

    def evaluate(self, dataset: Any, metrics: Metrics | None = None, *, allow_empty: bool = False) -> dict[str, Any]:
        """Return metrics over a dataset by name; where there are bad rows ``bad_rows`` counts them.

        Parameters
        ----------
        dataset
            With labels: a Dataset, a path, or rows as for :meth:`predict`.
        metrics
            Names, or :class:`~heterps.metrics.Metric` values; by default AUC and logloss (RMSE and MAE for ``mse``).
        allow_empty
            Accept data without a single row that can be used.
        """
        return self.measure(dataset, metrics, allow_empty=allow_empty).results

    def measure(self, dataset: Any, metrics: Metrics | None = None, *, allow_empty: bool = False) -> Measured:
        """Do as :meth:`evaluate`, and keep what the results were made of, to be merged with those of other data."""
        self._check_open()
        chosen = evaluation_metrics(self.plan.graph, metrics)
        data = self._data(dataset, chosen)
        check_readable(self.job, data.schema, chosen)
        labelled = data.labels_within(label_bounds(self.plan.graph)).shuffle("none")
        measured = Measured.of(self.engine.infer(labelled, chosen), chosen)
        if not measured.samples and not allow_empty:
            raise no_rows("evaluated", labelled)
        return measured

    def predict(
        self, dataset: Any, out: str | os.PathLike[str] | None = None, fetch: Fetch = PREDICTION
    ) -> Values | dict[str, Values] | Path:
        """Return predictions, or other tensors, for every row in order.

        A row that cannot be read keeps its place: its values are NaN, with a warning, and null in a file.

        Parameters
        ----------
        dataset
            A Dataset or a path, without or with a label; or rows: a dict, a list of dicts, a pandas, polars or Arrow
            frame, lines of JSON. Source columns are found by name and made into batches as they were in training.
        out
            A .parquet or .csv file to write instead of returning arrays; its column ``bad_row`` says why a row has no
            values.
        fetch
            A name gives one array, several give a dict: ``"prediction"``, outputs and ops of the graph, columns of
            batches, source columns of the data. ``{name: source}`` names them anew. Only what leads to them is
            computed and read.

        Returns
        -------
        numpy.ndarray, dict or pathlib.Path
            The path if ``out`` was given.
        """
        self._check_open()
        if out is not None:
            check_target(out, endings=ENDINGS)
        wanted = named(fetch)
        data = self._data(dataset, (), wanted.values())
        if out is not None:
            check_target(out, data.files)
        found = sources_of(self.plan.graph, data.schema, list(wanted.values()), data.source_names or ())
        sources = {name: found[source] for name, source in wanted.items()}
        if all(isinstance(source, Cell) for source in sources.values()):
            raise GraphError(f"{', '.join(sources)}: columns of the data alone; fetch something of the model with them")
        check_readable(self.job, data.schema, (), sources.values())
        if out is not None and BAD_ROW in sources:
            raise GraphError(f"{BAD_ROW!r} is the column of reasons: name what you fetch otherwise, {{name: source}}")
        parts = placed(self.engine.infer(data.shuffle("none").without_labels(), (), sources))
        if out is not None:
            return write_parquet(out, parts, list(sources))
        arrays = joined(filled(parts), sources)
        return arrays[fetch] if isinstance(fetch, str) else arrays

    def predict_there(self, dataset: Dataset, shape: Callable[[Any, Any], Any]) -> list[Any]:
        """Predict where rows lie and leave the results there; return a Dask future for each Split.

        Parameters
        ----------
        dataset
            A dask.dataframe's (:func:`~heterps.runtime.cluster.dask_frames.dask_frame`), with ``split_cost=1``.
        shape
            ``shape(predictions, index)`` is what stays of a partition; it travels to workers.
        """
        self._check_open()
        if not isinstance(self.engine, PredictsThere):
            raise RunError("predictions stay on workers only where the session runs on Dask")
        data = self._data(dataset, (), [PREDICTION]).shuffle("none").without_labels()
        return self.engine.infer_there(data, PREDICTION, shape)

    # --- tables

    def save(
        self, path: str | os.PathLike[str], kind: Kind = "checkpoint", *, note: Mapping[str, Any] | None = None
    ) -> Path:
        """Save the model to a folder; return the folder of this snapshot.

        Inside the loop over :meth:`train` the run rests meanwhile, with every batch applied everywhere or nowhere; cuts
        (``launch(checkpoint=DIR)``) are written beside training instead.

        Parameters
        ----------
        path
            Made if it is missing. Saving there again keeps the snapshot before.
        kind
            ``"checkpoint"`` holds everything and goes on exactly; ``"changes"`` goes on as exactly, but writes only
            what changed since the last save there (the first time everything); ``"delta"`` and ``"base"`` hold the
            values and counters of the rows that the tables' accessors select.
        note
            Of your own, JSON-able: it is in the snapshot's manifest, there if and only if the tables are.
        """
        self._check_open()
        check_folder(path)
        with nullcontext() if self._lock and self._lock.holds(path) else FolderLock(made_folder(Path(path))):
            SavedModel.of(self.job, self.form).write(Path(path))
            return save_tables(self.engine, Path(path), kind, note)

    def export(
        self,
        path: str | os.PathLike[str],
        format: FileFormat | None = None,
        *,
        kind: ExportKind = "full",
        rows: Encoding | None = None,
        onnx: Onnx = "auto",
    ) -> Path:
        """Write the model for others to score with (:class:`heterps.Predictor`, ``heterps serve``); return the folder.

        The snapshot that it is made of stays in ``path/source``, for changes to build on.

        Parameters
        ----------
        path
            Folder of the exported model; exporting there again adds a generation.
        format
            Of rows: ``"arrow"`` or ``"parquet"``.
        kind
            ``"full"``, ``"changes"`` (exactly what changed since the last export there; the first time everything),
            ``"base"`` or ``"delta"`` (rows that the tables' accessors select; counters change as after such a save).
        rows, onnx
            See :func:`heterps.export.export_model`.
        """
        saves: dict[ExportKind, Kind] = {"full": "checkpoint"}
        self.save(Path(path) / "source", saves.get(kind, kind))  # type: ignore[arg-type]
        return export_model(Path(path) / "source", path, kind=kind, format=format, rows=rows, onnx=onnx)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take over all tables of a checkpoint of this model, from any number of shard hosts; not while training."""
        self._check_open()
        load_tables(self.engine, Path(path))

    def load_table(self, path: str | os.PathLike[str], table: str, into: str | None = None) -> int:
        """Set the rows of one table from a snapshot of this or another model; return how many.

        Parameters
        ----------
        path
            A saved model, or the folder of a snapshot.
        table, into
            Name there, and here if it is another.
        """
        self._check_open()
        return load_one_table(self.engine, Path(path), table, into)

    def shrink(self) -> int:
        """Age the counters of tables with an accessor and delete rows not worth keeping; return how many went."""
        self._check_open()
        return shrink_tables(self.engine)

    # --- life

    def close(self) -> None:
        """Give everything back."""
        if self._open:
            self._open = False
            try:
                self.engine.close()
            finally:
                if self._lock is not None:
                    self._lock.close()

    def _check_open(self) -> None:
        if not self._open:
            raise RunError("the session is closed; its tables are gone. Work inside `with launch(...) as session:`")

    def _repr_html_(self) -> str:
        job, model = self.job, self.job.model
        rows = [(table.name, table.dim, type(table.rule).__name__) for group in model.groups for table in group.tables]
        state = "open" if self._open else "closed"
        caption = f"Session, {state}: batches of {job.batch_size:,}, {job.mode.name}, {job.hosts} shard hosts"
        return html_table(caption, ("table", "dim", "rule"), rows) + self.plan._repr_html_()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
