"""Arrow columns as the rules of inference see them; declared types say more than cells do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from heterps.data.core.schema import check_distinct
from heterps.data.study.choices import Choices
from heterps.data.study.column_study import ColumnLook, Look, look_of_floats
from heterps.data.study.infer_schema import Study, study_columns
from heterps.errors import DataError
from heterps.later import later

__all__ = ["look_at_arrow", "study_table"]

pc = later("pyarrow.compute")

_PLACES, _SAMPLED = 8, 2500


def study_table(table: Any, choices: Choices | None = None) -> Study:
    """Decide what the columns of an Arrow table are taken for, from some of its rows; from types where it has none."""
    check_distinct(table.column_names, "the columns of a table")
    some = _sampled(table)
    looks = [look_at_arrow(name, some.column(i)) for i, name in enumerate(some.column_names)]
    return study_columns(looks, choices or Choices())


def _sampled(table: Any) -> Any:
    if table.num_rows <= _PLACES * _SAMPLED:
        return table
    places = (table.num_rows * i // _PLACES for i in range(_PLACES))
    return pa.concat_tables([table.slice(at, _SAMPLED) for at in places])


def look_at_arrow(name: str, column: Any) -> ColumnLook:
    """Look at a column of an Arrow table."""
    kind, typed = column.type, ""
    if pa.types.is_dictionary(kind):
        column, typed = column.cast(kind.value_type), "a category by its type"
        kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_fixed_size_binary(kind):  # as polars gives text; hashes
        column = column.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.binary())
        kind = column.type
    look = _look(kind)
    if len(column) and column.null_count == len(column):
        look = "empty"
    if look in ("integer", "float"):
        return _numbers(name, column, typed)
    missing = column.null_count
    _check_text(name, column)
    if look == "text":
        missing += int(pc.sum(pc.equal(pc.binary_length(column), 0)).as_py() or 0)
    if look in ("list", "object", "empty"):
        return ColumnLook(name, len(column), missing, 0, look)
    return _named(name, column, look, missing, typed or ("dates" if look == "date" else ""))


def _check_text(name: str, column: Any) -> None:
    """Refuse text that is none: Arrow takes any bytes for it until they are looked at."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(f"column {name!r} has text that is not UTF-8 ({error}): write it as UTF-8") from error


def _look(kind: Any) -> Look:
    checks: tuple[tuple[Look, tuple[Any, ...]], ...] = (
        ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)),
        ("integer", (pa.types.is_integer, pa.types.is_boolean)),
        ("float", (pa.types.is_floating, pa.types.is_decimal)),
        ("date", (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration)),
        ("empty", (pa.types.is_null,)),
        ("list", (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)),
    )
    return next((look for look, tests in checks if any(test(kind) for test in tests)), "object")


def _numbers(name: str, column: Any, typed: str) -> ColumnLook:
    values = column.cast(pa.float64(), safe=False).to_numpy()
    present = values[np.isfinite(values)]
    missing = len(values) - len(present)
    distinct = np.unique(present)
    low, high = (f"{distinct[0]:.15g}", f"{distinct[-1]:.15g}") if len(distinct) else ("", "")
    common: dict[str, Any] = {"floats": pa.types.is_floating(column.type), "truth": pa.types.is_boolean(column.type)}
    look = _look(column.type)
    if common["floats"]:
        look = look_of_floats(present, missing)
    return ColumnLook(name, len(values), missing, len(distinct), look, present, low, high, typed=typed, **common)


def _named(name: str, column: Any, look: Look, missing: int, typed: str) -> ColumnLook:
    counted = [(str(item["values"]), int(item["counts"])) for item in pc.value_counts(column.drop_null()).to_pylist()]
    counted = sorted(pair for pair in counted if pair[0])
    low, high = (counted[0][0][:20], counted[-1][0][:20]) if counted else ("", "")
    values = tuple(counted) if len(counted) <= 3 else ()
    return ColumnLook(name, len(column), missing, len(counted), look, low=low, high=high, values=values, typed=typed)
