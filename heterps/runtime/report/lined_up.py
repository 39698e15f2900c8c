"""Results line up with the rows of the input: a row that could not be read has a place, no value and a reason."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data import BadRow
from heterps.errors import DataError
from heterps.runtime.batch.inference import Inferred, Values

__all__ = ["Placed", "filled", "placed"]

_LOG = logging.getLogger("heterps")


@dataclass(frozen=True, eq=False)
class Placed:
    """The results of some rows of the input.

    ``where`` has an element for each row: the row of ``values`` that is its result, or -1; ``reasons`` says why by row.
    """

    values: Mapping[str, Values]
    where: npt.NDArray[np.int64]
    reasons: Mapping[int, BadRow]
    cells: Any = None  # source columns as an Arrow table, one row for each of ``where``


def placed(parts: Iterable[Inferred]) -> Iterator[Placed]:
    """Yield the results of Splits with places for bad rows; those before the first value come along with it."""
    early: list[BadRow] = []
    cells: list[Any] = []
    known: Mapping[str, Values] = {}
    for part in parts:
        _check(part.bad)
        if part.samples:
            known = part.fetched
        cells += [] if part.cells is None else [part.cells]
        if known:
            yield _placed(part, early, cells)
            early, cells = [], []
        else:
            early += part.bad
    if early:
        raise DataError(f"no row could be read: all {len(early)} are bad, the first is {early[0]}")


def _check(bad: Sequence[BadRow]) -> None:
    for row in bad:
        if row.before < 0:
            raise DataError(f"results cannot line up with the input: its reader does not say where {row} belongs")


def _placed(part: Inferred, early: Sequence[BadRow], cells: Sequence[Any]) -> Placed:
    order = [*early, *sorted(part.bad, key=lambda row: row.before)]
    places = [(0 if n < len(early) else row.before) + n for n, row in enumerate(order)]
    where = np.full(part.samples + len(order), -1, np.int64)
    good = np.ones(len(where), bool)
    good[places] = False
    where[good] = np.arange(part.samples)
    beside = pa.concat_tables(cells) if cells else None
    if beside is not None and beside.num_rows != len(where):
        raise DataError(f"the data changed while it was read: it had {len(where)} rows, it has {beside.num_rows}")
    return Placed(part.fetched, where, dict(zip(places, order, strict=True)), beside)


def filled(parts: Iterable[Placed]) -> Iterator[Mapping[str, Values]]:
    """Yield arrays with NaN for bad rows, and warn of them; what has no NaN cannot have bad rows."""
    count, first = 0, None
    known: Mapping[str, Values] = {}
    for part in parts:
        known = part.values or known
        beside = {} if part.cells is None else {name: part.cells[name].to_numpy() for name in part.cells.column_names}
        yield {name: _filled(name, values, part) for name, values in known.items()} | beside
        count += len(part.reasons)
        first = first or next(iter(part.reasons.values()), None)
    if count:
        _LOG.warning("%d rows could not be read and have NaN for a result; the first is %s", count, first)


def _filled(name: str, values: Values, part: Placed) -> Values:
    if not len(part.where):  # of another part: this one has no rows
        return values[:0]
    if not part.reasons:
        return values
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        bad = next(iter(part.reasons.values()))
        raise DataError(
            f"{name!r} has no value that could stand for a bad row, and there is one: {bad}. Correct the input, or "
            "write to a file (out=...), where it is null"
        )
    out = np.full((len(part.where), *values.shape[1:]), np.nan, values.dtype)
    good = part.where >= 0
    out[good] = values[part.where[good]]
    return out
