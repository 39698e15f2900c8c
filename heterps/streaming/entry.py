"""Training day after day: each pass is waited for, predicted, then trained on; saved, measured, watched."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from heterps.choices import Metrics
from heterps.data import Dataset
from heterps.errors import CheckpointError, DataError
from heterps.runtime.cuts.folder_lock import FolderLock
from heterps.runtime.cuts.saved_model import SavedModel, made_folder
from heterps.runtime.cuts.saving import note_of
from heterps.session import Session
from heterps.streaming.ahead import Backoff, PortionAhead
from heterps.streaming.alarm import Alarm
from heterps.streaming.folders import FolderSource
from heterps.streaming.journal import Journal
from heterps.streaming.ledger import Cadence, Ledger
from heterps.streaming.pass_report import PassReport
from heterps.streaming.portion import StreamSource
from heterps.streaming.publishing import remove_orphans
from heterps.streaming.stream_run import Learning, StreamPlaces, StreamRun
from heterps.tables import Snapshots
from heterps.writing import check_folder

__all__ = ["stream", "usual_quiet_s"]

_LOG = logging.getLogger("heterps")


def stream(
    session: Session,
    source: str | os.PathLike[str] | StreamSource,
    out: str | os.PathLike[str],
    *,
    follow: bool = False,
    read: Callable[[Sequence[str]], Dataset] | None = None,
    format: str = "auto",
    schema: Mapping[str, Any] | None = None,
    shuffle: str = "local",
    metrics: Metrics | None = None,
    checkpoint_every: int = 1,
    delta_every: int | None = None,
    end_days: bool = True,
    late: str = "train",
    unreadable: str = "stop",
    alarms: Sequence[str | Alarm] = (),
    on_alarm: str | Sequence[str] | None = None,
    export: bool = False,
    dump: Sequence[str] = (),
    start: str | os.PathLike[str] | None = None,
    poll_s: tuple[float, float] = (1.0, 60.0),
    stop: Callable[[], bool] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Iterator[PassReport]:
    """Train pass by pass on what a source brings, yielding a report of each; go on where a run before was lost.

    Each pass is first predicted with the model as it is (the metrics are of those predictions), then trained on.
    The folder ``out`` holds the model (as :meth:`~heterps.session.Session.save` writes it), its deltas and bases with
    the list ``published.json``, the log ``log/*.parquet`` and its picture ``passes.svg``. Killed anywhere and called
    again with the same arguments, the stream goes on from its checkpoint: no pass counts twice and none is lost; in
    Sync the tables are the same to the bit.

    Parameters
    ----------
    session
        Just launched: its tables are those of the checkpoint in ``out``, or of ``start``, or fresh.
    source
        A pattern of names by day and pass (``logs/{day}/{pass}/*.csv``; with ``follow`` a pass counts as complete once
        it did not change for 10 seconds), or a source
        (:class:`~heterps.streaming.folders.FolderSource`, :class:`~heterps.streaming.appended.AppendedFiles`,
        :class:`~heterps.streaming.redis_stream.RedisStream`, one of your own).
    out
        Folder for everything.
    follow
        Go on waiting for more; else the stream ends when there is nothing to be had that was not promised by a list.
    format, schema
        Of the files, where their names do not tell; and what is known of their columns, as options of the format's
        reader (``{"label": "clicked"}``). The first pass decides about columns, as in ``session.train``.
    read
        Your own way from files to a dataset, for every pass.
    shuffle
        Of the rows of a pass: ``"local"``, ``"global"`` or ``"none"``.
    metrics
        Names, or metrics; also ``gauc:COLUMN``, ``auc_by:COLUMN``, ``copc_by:COLUMN``, ``slot_auc``, ``slot_copc``. By
        default those of ``evaluate``, and COPC for a logloss.
    checkpoint_every, delta_every
        Passes from one to the next. A delta is of no use to others before the checkpoint that comes with it.
    end_days
        At a day's end shrink the tables and save a base, which also counts the day for rows that were not seen.
    late
        Passes of a day that has ended: ``"train"`` or ``"skip"`` them.
    unreadable
        Passes that cannot be read: ``"stop"`` with the error, or ``"skip"`` them with a warning.
    alarms, on_alarm
        Conditions such as ``"auc<0.70"``, and the command that is run when one begins to hold: words, or one text.
    export
        With each checkpoint export what changed to ``out/export``, for :class:`heterps.Predictor`.
    dump
        Tensors and columns, as for ``session.predict``, that are written to ``out/dump`` for each row of each pass, as
        the model has them before it is trained on it.
    start
        A saved model to begin with.
    poll_s
        First and longest pause between questions to the source.
    stop
        Asked between passes and while waiting: True ends the stream after a checkpoint.
    on_wait
        Told what is waited for, once.
    """
    cadence = _cadence(checkpoint_every, delta_every, end_days, late)
    if unreadable not in ("stop", "skip"):
        raise DataError(f"unreadable={unreadable!r}; passes that cannot be read 'stop' the stream, or 'skip' them")
    watched = tuple(each if isinstance(each, Alarm) else Alarm.parse(each) for each in alarms)
    command = shlex.split(on_alarm) if isinstance(on_alarm, str) else list(on_alarm or ())
    if command and not watched:
        raise DataError("a command for alarms is given, but no alarm: name one, such as auc<0.70")
    check_folder(out)
    learning = Learning(session, read, format, dict(schema or {}), shuffle, metrics, unreadable == "skip", dump)
    from_ = FolderSource(source, quiet_s=usual_quiet_s(follow)) if isinstance(source, str | os.PathLike) else source
    waiting = (stop or _never, on_wait or _log_wait)
    return _reports(
        learning, from_, StreamPlaces(Path(out)), cadence, follow, watched, command, export, start, poll_s, *waiting
    )


def usual_quiet_s(follow: bool) -> float:
    """Return for how long files must not have changed: who follows finds some that are still being written."""
    return 10.0 if follow else 0.0


def _cadence(checkpoint_every: int, delta_every: int | None, end_days: bool, late: str) -> Cadence:
    for name, value in (("checkpoint_every", checkpoint_every), ("delta_every", delta_every)):
        if value is not None and value < 1:
            raise DataError(f"{name}={value}: must be at least 1 pass")
    if late not in ("train", "skip"):
        raise DataError(f"late={late!r}; passes of days that have ended are to 'train' or to 'skip'")
    return Cadence(checkpoint_every, delta_every, end_days, late)


def _reports(
    learning: Learning,
    source: StreamSource,
    places: StreamPlaces,
    cadence: Cadence,
    follow: bool,
    alarms: Sequence[Alarm],
    command: Sequence[str],
    exports: bool,
    start: str | os.PathLike[str] | None,
    poll_s: tuple[float, float],
    stop: Callable[[], bool],
    on_wait: Callable[[str], None],
) -> Generator[PassReport, None, None]:
    with ExitStack() as stack:
        stack.enter_context(closing(source))
        stack.enter_context(FolderLock(made_folder(places.stream)))
        ledger = _begun(learning.session, places.model, start)
        journal = Journal(places.journal)
        ahead = PortionAhead(
            source, places.rows, ledger.sequence, ledger.position, journal.after(ledger.sequence), Backoff(*poll_s)
        )
        stack.callback(ahead.close)
        run = StreamRun(learning, source, ahead, journal, places, cadence, ledger, alarms, command, exports)
        run.reconcile()
        yield from run.reports(follow, stop, on_wait)


def _never() -> bool:
    return False


def _log_wait(awaited: str) -> None:
    _LOG.info("waiting for %s", awaited)


def _begun(session: Session, model: Path, start: str | os.PathLike[str] | None) -> Ledger:
    """Bring the tables to where the stream stands; return its ledger."""
    if session.engine.passes:
        raise CheckpointError(
            "this session has trained before; a stream needs one that was just launched (start=MODEL)"
        )
    if Snapshots(model / "checkpoint").generations():
        saved, ledger = SavedModel.read(model), _ledger(model)
        _check_same(saved, SavedModel.of(session.job), model)
        session.load(model)
        session.form = saved.form
        return ledger
    remove_orphans(model, Ledger())
    if start is not None:
        session.load(start)
        session.form = SavedModel.read(Path(start)).form
    return Ledger()


def _ledger(model: Path) -> Ledger:
    try:
        return Ledger.from_json(note_of(model))
    except CheckpointError as error:
        raise CheckpointError(f"a stream cannot go on in {model}: {error}") from error


def _check_same(saved: SavedModel, ours: SavedModel, model: Path) -> None:
    for name in ("graph", "sparse", "dense", "seed", "batch_size", "mode"):
        if getattr(saved, name) != getattr(ours, name):
            was, now = (str(getattr(each, name)) for each in (saved, ours))
            told = "" if name == "graph" else f" ({was}, now {now})"
            raise CheckpointError(
                f"the stream in {model} has another {name.replace('_', ' ')}{told}: go on with the same, or name "
                "another folder and begin there with start="
            )
