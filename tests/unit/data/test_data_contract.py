"""One behaviour in every format: which rows are bad, what is said of them, and where they stood."""

import math
from pathlib import Path

import numpy as np
import pytest

from heterps.data import BadRows, Dataset, Number, Schema, csv, dense, frame, label, parquet
from heterps.errors import DataError
from tests.unit.data.formats import FORMATS, Row

GOOD: list[Row] = [(float(n), n / 16) for n in range(9)]
ROWS: list[Row] = [
    *GOOD[:3],
    (3.0, None),  # no label
    (math.inf, 0.5),  # not a number
    *GOOD[3:5],
    (None, 5 / 16),  # a missing feature is 0
    (1.0, 2.0),  # out of bounds for a logloss
    (1.0, -0.25),
    *GOOD[6:],
]
KEPT = [n / 16 for n in range(9)]
BOUNDS = {"y": (0.0, 1.0)}

every_format = pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)


def labels(data: Dataset, batch_size: int = 4, start: int = 0, bad: BadRows | None = None) -> list[float]:
    split = data.splits()[0]
    return [float(v) for b in data.read(split, batch_size=batch_size, start=start, bad=bad) for v in b["y"]]


@every_format
def test_the_same_rows_are_bad(tmp_path: Path, make) -> None:
    data, bad = make(tmp_path, ROWS).labels_within(BOUNDS), BadRows(keeps=True)
    assert labels(data, bad=bad) == KEPT
    assert bad.reasons == {"no label": 1, "not a finite number": 1, "label out of bounds": 2}
    assert sorted(row.before for row in bad.rows) == [3, 3, 6, 6]
    assert [row.before for row in bad.rows if "no label" in row.reason] == [3]


@every_format
def test_reading_from_later_on_finds_the_same(tmp_path: Path, make) -> None:
    data, bad = make(tmp_path, ROWS).labels_within(BOUNDS), BadRows()
    assert labels(data, start=1, bad=bad) == KEPT[4:]
    assert bad.count == 4


@every_format
def test_without_bounds_any_label_will_do_but_none(tmp_path: Path, make) -> None:
    bad = BadRows()
    assert sorted(labels(make(tmp_path, ROWS), bad=bad)) == sorted([*KEPT, 2.0, -0.25])
    assert bad.reasons == {"no label": 1, "not a finite number": 1}


@every_format
def test_where_labels_are_not_needed_a_missing_one_is_nan(tmp_path: Path, make) -> None:
    bad = BadRows()
    found = np.array(labels(make(tmp_path, ROWS).without_labels(), bad=bad))
    assert len(found) == len(ROWS) - 1
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]
    assert bad.reasons == {"not a finite number": 1}


@every_format
def test_a_missing_feature_is_zero(tmp_path: Path, make) -> None:
    data = make(tmp_path, [(1.0, 1.0), (None, 0.0)])
    (batch,) = data.read(data.splits()[0], batch_size=9)
    assert batch["x"][1, 0] == 0


@every_format
def test_the_first_bad_row_can_be_an_error_that_names_it(tmp_path: Path, make) -> None:
    data = make(tmp_path, ROWS).on_bad("error")
    with pytest.raises(DataError, match=r"(line|byte) \d+: no label in (column|slot) '"):
        labels(data)


@every_format
def test_too_many_bad_rows_are_an_error(tmp_path: Path, make) -> None:
    data = make(tmp_path, [*GOOD, *[(1.0, None)] * 9]).on_bad(limit=8)
    with pytest.raises(DataError, match="9 bad rows"):
        labels(data)


@every_format
def test_a_shuffled_read_finds_the_same(tmp_path: Path, make) -> None:
    data, bad = make(tmp_path, ROWS).labels_within(BOUNDS).shuffle("local", window=8), BadRows()
    assert sorted(labels(data, bad=bad)) == KEPT
    assert bad.count == 4


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas"])
def test_a_default_makes_a_missing_label_good(tmp_path: Path, kind: str) -> None:
    fields = Schema.of(dense("x", Number("x")), label("y", Number("y", missing=0.25)))
    FORMATS[kind](tmp_path, ROWS)
    match kind:
        case "csv":
            data: Dataset = csv(tmp_path / "a.csv", fields)
        case "parquet":
            data = parquet(tmp_path / "a.parquet", fields)
        case _:
            data = frame(FORMATS["arrow"](tmp_path, ROWS).table, fields)
    bad = BadRows()
    assert labels(data.labels_within(BOUNDS), bad=bad)[3] == 0.25
    assert "no label" not in bad.reasons


# --- columns of one name


def test_two_columns_of_one_name_are_both_named(tmp_path: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.csv").write_text("a,b,y,b\n1,2,1,3\n")
    table = pa.table([[1], [2], [1], [3]], names=["a", "b", "y", "b"])
    pq.write_table(table, tmp_path / "a.parquet")
    pandas = pd.DataFrame([[1, 2, 1, 3]], columns=["a", "b", "y", "b"])
    fields = Schema.of(dense("x", Number("b")), label("y", Number("y")))
    for open_ in (
        lambda: csv(tmp_path / "a.csv"),
        lambda: csv(tmp_path / "a.csv", fields),
        lambda: csv(tmp_path / "a.csv", fields, columns=["a", "b", "y", "b"]),
        lambda: parquet(tmp_path / "a.parquet"),
        lambda: labels(parquet(tmp_path / "a.parquet", fields)),
        lambda: frame(table),
        lambda: frame(pandas, fields),
    ):
        with pytest.raises(DataError, match=r"columns 2 and 4 are both called 'b'"):
            open_()


# --- files that are not what they were


@pytest.mark.parametrize("kind", ["csv", "tsv", "criteo", "name:value", "counted", "parquet"])
def test_a_file_that_shrinks_is_an_error(tmp_path: Path, kind: str) -> None:
    data = FORMATS[kind](tmp_path, GOOD * 50)
    split = data.splits()[0]
    (path,) = tmp_path.iterdir()
    smaller = tmp_path / "smaller"
    smaller.mkdir()
    FORMATS[kind](smaller, GOOD)
    path.write_bytes(next(smaller.iterdir()).read_bytes())
    with pytest.raises(DataError, match=f"{path.name} became shorter"):
        list(data.read(split, batch_size=4))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("left", [0.3, 0.9])
def test_a_truncated_archive_is_an_error(tmp_path: Path, kind: str, left: float) -> None:
    data = FORMATS[kind](tmp_path, [(float(n), (n % 7) / 7) for n in range(5000)])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[: int(left * path.stat().st_size)])
    with pytest.raises(DataError, match=rf"cannot read .*{path.name} at byte \d+: .*; it is damaged or incomplete"):
        labels(data)
