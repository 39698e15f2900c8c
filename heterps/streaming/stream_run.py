"""The effects of a stream: does what :func:`~heterps.streaming.course.next_step` says, one step after another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heterps.choices import Metrics, evaluation_metrics
from heterps.data import Dataset, open_dataset
from heterps.data.sources.given import open_known
from heterps.errors import DataError
from heterps.export import export_model
from heterps.metrics import Metric
from heterps.runtime.cuts.saved_model import made_folder
from heterps.runtime.report.measured import Measured
from heterps.runtime.report.progress import BAD_ROWS, Progress
from heterps.session import Session
from heterps.streaming.ahead import Brought, PortionAhead
from heterps.streaming.alarm import Alarm, Rung, begun, ring
from heterps.streaming.course import Do, End, EndDay, Learn, PassOver, Wait, next_step
from heterps.streaming.journal import Journal
from heterps.streaming.ledger import BASE, DELTA, KEEP, SHRINK, Cadence, Ledger
from heterps.streaming.measures import chosen_metrics, rows_of
from heterps.streaming.pass_log import LogRow, PassLog
from heterps.streaming.pass_plot import draw_passes
from heterps.streaming.pass_report import PassReport
from heterps.streaming.portion import Nothing, Portion, StreamSource
from heterps.streaming.publishing import publish, remove_orphans
from heterps.streaming.totals import Totals
from heterps.tables import Kind
from heterps.writing import write_whole

__all__ = ["Learning", "StreamPlaces", "StreamRun"]

_LOG = logging.getLogger("heterps")
_TOTALS_KEPT = 4  # more than there are checkpoints
_DRAWN_DAYS = 60
_SAVED: Mapping[str, Kind] = {BASE: "base", DELTA: "delta"}


@dataclass(frozen=True)
class StreamPlaces:
    """Where everything of a stream lies, below the folder of its model."""

    model: Path

    @property
    def stream(self) -> Path:
        """What the stream needs itself."""
        return self.model / "stream"

    @property
    def journal(self) -> Path:
        """Portions since the last checkpoint."""
        return self.stream / "journal.jsonl"

    @property
    def rows(self) -> Path:
        """Portions that had to be fetched."""
        return self.stream / "rows"

    @property
    def log(self) -> Path:
        """The Parquet log."""
        return self.model / "log"

    @property
    def dump(self) -> Path:
        """Tensors and columns of each row, a file for each pass."""
        return self.model / "dump"

    @property
    def export(self) -> Path:
        """The model for others to score with."""
        return self.model / "export"

    @property
    def plot(self) -> Path:
        """The log's picture."""
        return self.model / "passes.svg"


class Learning:
    """A session with how passes are read, measured and trained on.

    Parameters
    ----------
    session
        Holds the tables.
    read, format, schema, shuffle, metrics
        As for :func:`~heterps.streaming.entry.stream`.
    skips
        Passes that cannot be read are left out with a warning; before the first one was trained on they never are: it
        is more likely the model that does not fit.
    dump
        Of each row of a pass.
    """

    def __init__(
        self,
        session: Session,
        read: Callable[[Sequence[str]], Dataset] | None,
        format: str,
        schema: Mapping[str, Any],
        shuffle: str,
        metrics: Metrics | None,
        skips: bool,
        dump: Sequence[str] = (),
    ) -> None:
        self.session, self.skips, self._dump = session, skips, tuple(dump)
        self._read, self._format, self._schema, self._shuffle, self._given = read, format, schema, shuffle, metrics
        self.metrics: tuple[Metric, ...] = ()  # known with the first pass

    def _chosen(self, data: Dataset) -> tuple[Metric, ...]:
        """Return what is measured; names of columns are looked up in those that the model was trained with."""
        form = self.session.form
        schema = form.fields if form is not None and form.has_recipes else data.schema
        given = self._given if self._given is not None else self._usual()
        return chosen_metrics([given] if isinstance(given, str) else given, schema)

    def _usual(self) -> Metrics:
        usual = evaluation_metrics(self.session.plan.graph, None)
        return [*usual, "copc"] if any(each.name == "logloss" for each in usual) else usual

    def open(self, files: Sequence[str]) -> Dataset:
        """Return the rows of a pass as a dataset."""
        if self._read is not None:
            return self._read(list(files))
        paths, form = list(files) if len(files) > 1 else files[0], self.session.form
        if form is None and self._schema:
            return open_dataset(paths, self._format, **self._schema)
        return open_known(paths, form, self._format)

    def measured(self, data: Dataset) -> Measured:
        """Predict a pass with the model as it is; all its rows are read, so what cannot be is found before training."""
        self.metrics = self.metrics or self._chosen(data)
        found = self.session.measure(data, self.metrics, allow_empty=True)
        if not found.samples and found.results.get(BAD_ROWS):
            raise DataError(f"not one of its {found.results[BAD_ROWS]:,} rows can be used")
        return found

    def dumped(self, data: Dataset, path: Path) -> None:
        """Write what is wanted of each row of a pass, as the model has it before it is trained on."""
        if self._dump:
            made_folder(path.parent)
            self.session.predict(data, out=path, fetch=self._dump)

    def trained(self, data: Dataset) -> Progress:
        """Train on a pass once."""
        shuffled: Any = data.shuffle(self._shuffle)  # type: ignore[arg-type]
        lost, before = 0.0, 0
        for progress in self.session.train(shuffled):
            if progress.samples > before:  # a report's loss is over what came since the one before
                lost, before = lost + progress.loss * (progress.samples - before), progress.samples
        return replace(progress, loss=lost / before if before else progress.loss)


class StreamRun:
    """One life of a stream."""

    def __init__(
        self,
        learning: Learning,
        source: StreamSource,
        ahead: PortionAhead,
        journal: Journal,
        places: StreamPlaces,
        cadence: Cadence,
        ledger: Ledger,
        alarms: Sequence[Alarm],
        command: Sequence[str],
        exports: bool,
    ) -> None:
        self._exports = exports
        self._learning, self._source, self._ahead, self._journal = learning, source, ahead, journal
        self._places, self._cadence, self._alarms, self._command = places, cadence, alarms, command
        self.ledger = ledger  # of what the tables hold
        self._log = PassLog(places.log)
        self._totals: Totals | None = None  # read when metrics are known
        self._events: list[str] = []  # since the last report
        self._awaited = ""

    def reconcile(self) -> None:
        """Undo what was done after the checkpoint and is not in the tables; repeat what should have followed it."""
        remove_orphans(self._places.model, self.ledger)
        self._log.cut(self.ledger.sequence)
        if self.ledger.sequence:
            self._settled()

    def reports(
        self, follow: bool, stop: Callable[[], bool], on_wait: Callable[[str], None]
    ) -> Generator[PassReport, None, None]:
        """Do one step after another; a report comes once all that was owed for its pass is done."""
        report: PassReport | None = None
        while True:
            stopped = not self.ledger.owed and stop()
            offer = None if self.ledger.owed or stopped else self._ahead.look(stop)
            step = self._next(offer, follow)
            if report is not None and not isinstance(step, Do):
                yield self._finished(report)
                report = None
            match step:
                case Learn():
                    assert isinstance(offer, Brought)
                    report = self._learn(offer, step.late)
                case PassOver():
                    report = self._pass_over(step.portion, "skipped late" if step.why == "late" else step.why)
                case EndDay():
                    self._end_day()
                case Do():
                    self._do(step.what)
                case Wait():
                    if step.awaited != self._awaited:
                        on_wait(step.awaited)
                    self._awaited = step.awaited
                    self._ahead.wait(stop)
                case End():
                    return

    def _next(self, offer: Brought | Nothing | None, follow: bool) -> Any:
        """Ask the pure part; None stands for an end that somebody asked for."""
        if offer is None:
            return next_step(self.ledger, self._cadence, Nothing("the end"), follow=False)
        return next_step(self.ledger, self._cadence, offer.portion if isinstance(offer, Brought) else offer, follow)

    def _finished(self, report: PassReport) -> PassReport:
        events, self._events = self._events, []
        return replace(report, events=tuple(events))

    # --- passes

    def _learn(self, brought: Brought, late: bool) -> PassReport:
        portion = brought.portion
        self._begin(portion)
        if not brought.files:
            return self._taken(portion, "empty")
        try:
            data = self._learning.open(brought.files)
            measured = self._learning.measured(data)
        except DataError as error:
            if not self._learning.skips or not self.ledger.rows:
                raise DataError(f"pass {portion}: {error}") from error
            _LOG.warning("pass %s cannot be read and is left out: %s", portion, error)
            return self._taken(portion, "unreadable")
        if not measured.samples:
            return self._taken(portion, "empty")
        self._learning.dumped(data, self._places.dump / f"{self.ledger.sequence + 1:08d}.parquet")
        progress = self._learning.trained(data)
        return self._taken(portion, "late" if late else "trained", measured, progress)

    def _pass_over(self, portion: Portion, why: str) -> PassReport:
        self._begin(portion)
        return self._taken(portion, why)

    def _begin(self, portion: Portion) -> None:
        """Note which portion it is, before anything depends on it, and look for the next."""
        self._journal.note(self.ledger.sequence + 1, portion)
        self._ahead.go_on(portion)
        self._awaited = ""

    def _taken(
        self, portion: Portion, state: str, measured: Measured | None = None, progress: Progress | None = None
    ) -> PassReport:
        rows = progress.samples if progress is not None else 0
        self.ledger = self.ledger.taken(portion, self._cadence, rows)
        report = PassReport(self.ledger.sequence, portion.day, portion.name, state, rows)
        if measured is not None and progress is not None:
            totals = self._all_so_far()
            totals.add(measured.states, measured.results, measured.samples)
            values = {name: value for name, value in measured.results.items() if name != BAD_ROWS}
            bad = measured.results.get(BAD_ROWS, 0)
            report = replace(
                report, bad_rows=bad, loss=progress.loss, measured=rows_of(values), totals=rows_of(totals.results())
            )
        self._write_log(report)
        rung, ringing = begun(self._alarms, self.ledger.ringing, report.measured, report.totals)
        self.ledger = replace(self.ledger, ringing=ringing if measured is not None else self.ledger.ringing)
        self._ring(rung if measured is not None else (), report)
        return replace(report, alarms=rung if measured is not None else ())

    def _all_so_far(self) -> Totals:
        if self._totals is None:
            before, metrics = self.ledger.totals, self._learning.metrics
            self._totals = Totals(metrics) if before is None else Totals.read(self._places.stream / before, metrics)
        return self._totals

    def _write_log(self, report: PassReport) -> None:
        values = {("rows", ""): float(report.rows), ("bad_rows", ""): float(report.bad_rows)}
        values |= report.measured
        totals = {("rows", ""): float(self.ledger.rows), **report.totals}
        row = LogRow(report.sequence, report.day, report.name, report.state)
        self._log.write(row, {key: value for key, value in values.items() if value == value}, totals)

    def _ring(self, rung: Sequence[Rung], report: PassReport) -> None:
        for each in rung:
            _LOG.warning("alarm in pass %s %s: %s", report.day, report.name, each)
            if self._command:
                ring(self._command, each, report.day, report.name, report.sequence)

    # --- what is owed

    def _end_day(self) -> None:
        self._events.append(f"day {self.ledger.day} ended")
        self.ledger = self.ledger.day_over(self._cadence)

    def _do(self, what: str) -> None:
        if what == SHRINK:
            gone = self._learning.session.shrink()
            self._events += [f"{gone:,} rows dropped"] if gone else []
        elif what in _SAVED:
            self._save(_SAVED[what])
        self.ledger = self.ledger.done(what)
        if what == KEEP:
            self._keep()

    def _save(self, kind: Kind) -> None:
        folder = self._learning.session.save(self._places.model, kind, note={"sequence": self.ledger.sequence})
        self.ledger = self.ledger.published(kind, folder.name)
        self._events.append(f"{kind} {folder.name}")

    def _keep(self) -> None:
        """Make a checkpoint: from the moment its manifest is there, everything up to this pass counts."""
        kind: Kind = "checkpoint" if self.ledger.is_whole_due else "changes"
        self.ledger = self.ledger.kept()
        if self._totals is not None:
            path = self._places.stream / f"totals-{self.ledger.sequence:08d}.npz"
            self._totals.write(path)
            self.ledger = replace(self.ledger, totals=path.name)
        self._learning.session.save(self._places.model, kind, note=self.ledger.to_json())
        self._settled()

    def _settled(self) -> None:
        """Do what follows from a checkpoint; a crash in between is made good at the next start."""
        ledger = self.ledger
        publish(self._places.model, ledger)
        if self._exports:  # of what is on disk: a repeated one finds that nothing has changed
            export_model(self._places.model, self._places.export, kind="changes")
        self._source.commit(ledger.position)
        self._journal.forget(ledger.sequence)
        self._ahead.forget(ledger.sequence)
        for path in sorted(self._places.stream.glob("totals-*.npz"))[:-_TOTALS_KEPT]:
            path.unlink()
        write_whole(self._places.plot, draw_passes(self._log.read(_DRAWN_DAYS)))
