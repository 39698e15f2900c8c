"""The log of a stream: Parquet files, one a day, with a row for each pass and measure.

Each row has the number of its pass; what a crash has undone is cut off before anything is added (:meth:`PassLog.cut`),
so the log never tells of a pass twice.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from heterps.errors import CheckpointError
from heterps.parquet import read_parquet
from heterps.runtime.cuts.saved_model import made_folder
from heterps.streaming.measures import Measure
from heterps.writing import whole_file

__all__ = ["LogRow", "PassLog", "read_log"]

_SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),  # number of the pass, from 1
        ("day", pa.string()),
        ("pass", pa.string()),
        ("state", pa.string()),  # trained, late, empty, missing, unreadable, ...
        ("measure", pa.string()),  # rows, bad_rows, or the name of a metric
        ("group", pa.string()),  # of a metric with several results: slot or group
        ("value", pa.float64()),  # of this pass; null where it is not defined
        ("total", pa.float64()),  # of all passes up to this one
        ("at", pa.timestamp("ms", "UTC")),
    ]
)


class LogRow:
    """One pass, as it is written."""

    def __init__(self, sequence: int, day: str, name: str, state: str) -> None:
        self._key = {"sequence": sequence, "day": day, "pass": name, "state": state}
        self.day, self.sequence = day, sequence

    def table(self, values: Mapping[Measure, float], totals: Mapping[Measure, float]) -> pa.Table:
        """Return a row for each measure."""
        now = datetime.now(UTC)
        rows = [
            {
                **self._key,
                "measure": name,
                "group": group,
                "value": values.get((name, group)),
                "total": totals.get((name, group)),
                "at": now,
            }
            for name, group in dict.fromkeys((*values, *totals))
        ]
        return pa.Table.from_pylist(rows, _SCHEMA)


class PassLog:
    """The files of a log, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, row: LogRow, values: Mapping[Measure, float], totals: Mapping[Measure, float]) -> None:
        """Add a pass; its number is greater than all before."""
        path = made_folder(self.folder) / _file_name(row.day)
        before = _read(path) if path.exists() else _SCHEMA.empty_table()
        self._store(path, pa.concat_tables([before, row.table(values, totals)]))

    def cut(self, sequence: int) -> None:
        """Drop all passes after one: a crash has undone them."""
        for path in sorted(self.folder.glob("day-*.parquet")):
            table = _read(path)
            kept = table.filter(pc.less_equal(table["sequence"], sequence))
            if not len(kept):
                path.unlink()
            elif len(kept) < len(table):
                self._store(path, kept)

    def _store(self, path: Path, table: pa.Table) -> None:
        with whole_file(path, "wb") as file:
            pq.write_table(table, file)

    def read(self, most_days: int | None = None) -> pa.Table:
        """Return all passes in their order, or those of the last days."""
        paths = sorted(self.folder.glob("day-*.parquet"))[-(most_days or 0) :]
        tables = [_read(path) for path in paths] or [_SCHEMA.empty_table()]
        return pa.concat_tables(tables).sort_by("sequence")


def read_log(model: Path) -> pa.Table:
    """Return the log of a stream's model folder as an Arrow table."""
    return PassLog(model / "log").read()


def _file_name(day: str) -> str:
    """Return a file's name for a day, whatever that is called."""
    return f"day-{urllib.parse.quote(day, safe='')}.parquet"


def _read(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            found = read_parquet(file)
        return pa.concat_tables([_SCHEMA.empty_table(), found], promote_options="default").select(_SCHEMA.names)
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"cannot read {path}: {error}; move it away to begin a new log") from error
