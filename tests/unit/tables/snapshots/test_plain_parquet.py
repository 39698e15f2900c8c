"""Our own Parquet writer: any reader finds what it finds in a file of Arrow's writer."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from heterps.tables.snapshots import pages
from heterps.tables.snapshots.plain_parquet import PlainWriter
from heterps.thrift import I8, I16, I64, decode, encode
from tests.unit.tables.snapshots.test_pages import check_equal, read, table


def plain(rows: pa.Table, group: int) -> bytes:
    sink = io.BytesIO()
    columns = pages._decoded(rows)
    writer = PlainWriter(sink, columns, statistics=("id",))
    for first in range(0, rows.num_rows, group):
        writer.write({name: array[first : first + group] for name, array in columns.items()})
    writer.close()
    assert writer.rows == rows.num_rows
    return sink.getvalue()


def arrow(rows: pa.Table, group: int) -> bytes:
    sink = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False, "write_statistics": ["id"]}
    pq.write_table(rows, sink, row_group_size=group, **options)
    return sink.getvalue()


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 300), width=st.integers(1, 70), group=st.integers(1, 200))
def test_a_file_reads_as_one_that_arrow_wrote(rows: int, width: int, group: int) -> None:
    wanted = table(rows, width)
    ours, theirs = (pq.ParquetFile(io.BytesIO(write(wanted, group))) for write in (plain, arrow))
    assert ours.read().equals(wanted)
    assert ours.schema_arrow.equals(theirs.schema_arrow, check_metadata=True)
    assert ours.schema.equals(theirs.schema)
    for k in range(ours.num_row_groups):
        left, right = (file.metadata.row_group(k).column(0).statistics for file in (ours, theirs))
        assert (left.min, left.max, left.null_count) == (right.min, right.max, right.null_count)
        assert ours.metadata.row_group(k).column(1).statistics is None
    check_equal(read(plain(wanted, group)), wanted)


def test_our_own_files_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = plain(table(100, 4), 60)
    monkeypatch.setattr(pages, "_decoded", None)
    shapes = {name: array.shape for name, array in read(data).items()}
    assert shapes == {"id": (100,), "t.slots": (100, 4), "last_use": (100,)}


def test_pandas_and_duckdb_read_it(tmp_path: Path) -> None:
    wanted, path = table(1000, 5), tmp_path / "rows.parquet"
    path.write_bytes(plain(wanted, 300))
    frame = pd.read_parquet(path)
    assert frame["id"].tolist() == wanted["id"].to_pylist()
    np.testing.assert_array_equal(np.stack(frame["t.slots"].tolist()), wanted["t.slots"].to_pylist())
    found = duckdb.sql(f"""select id, "t.slots", last_use from '{path}'""").fetchall()
    assert [(a, list(b), c) for a, b, c in found] == list(zip(*wanted.to_pydict().values(), strict=True))
    one = wanted["id"][500].as_py()
    assert duckdb.sql(f"select last_use from '{path}' where id = {one}").fetchall() == [(found[500][2],)]


values = st.recursive(
    st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.integers(-(2**63), 2**63 - 1).map(I64)
    | st.integers(-(2**15), 2**15 - 1).map(I16)
    | st.integers(-128, 127).map(I8)
    | st.binary(max_size=200)
    | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20)
    | st.lists(st.binary(max_size=3), max_size=20),
    lambda inner: st.dictionaries(st.integers(1, 15), inner, max_size=4).map(lambda d: dict(sorted(d.items()))),
)


@given(st.dictionaries(st.integers(1, 15), values, max_size=5).map(lambda d: dict(sorted(d.items()))), st.binary())
def test_structs_come_back_with_their_types(fields: dict[int, object], before: bytes) -> None:
    data = before + encode(fields)
    found, end = decode(data, len(before))
    assert end == len(data)
    assert repr(found) == repr(fields)
    assert encode(found) == data[len(before) :]
