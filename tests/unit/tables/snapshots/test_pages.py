"""Columns read where they stand in a Parquet file are what Arrow decodes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from heterps.tables.snapshots import pages

PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False}


def table(rows: int, width: int, *, nullable: bool = False, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    element = pa.field("element", pa.float32(), nullable=nullable)
    fields = [
        pa.field("id", pa.uint64(), nullable=nullable),
        pa.field("t.slots", pa.list_(element, width), nullable=nullable),
        pa.field("last_use", pa.uint32(), nullable=nullable),
    ]
    ids = rng.integers(0, 2**64 - 1, rows, dtype=np.uint64)
    values = rng.normal(size=rows * width).astype(np.float32)
    last = rng.integers(0, 2**32, rows, dtype=np.uint32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), type=fields[1].type)
    return pa.Table.from_arrays([pa.array(ids), lists, pa.array(last)], schema=pa.schema(fields))


def written(rows: pa.Table, group: int, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=group, **options)
    return sink.getvalue()


def read(data: bytes, names: list[str] | None = None) -> dict[str, np.ndarray]:
    parts = list(pages.row_groups(data, names))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def check_equal(found: dict[str, np.ndarray], rows: pa.Table) -> None:
    for name in rows.column_names:
        wanted = np.array(rows.column(name).to_pylist(), found[name].dtype).reshape(found[name].shape)
        np.testing.assert_array_equal(found[name], wanted)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(0, 300), width=st.integers(1, 9), group=st.integers(1, 200), page=st.sampled_from([64, 1 << 20])
)
def test_values_equal_what_was_written(rows: int, width: int, group: int, page: int) -> None:
    wanted = table(rows, width)
    check_equal(read(written(wanted, group, data_page_size=page, write_batch_size=16, **PLAIN)), wanted)


def test_our_own_files_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(table(100, 4), 60, **PLAIN)
    monkeypatch.setattr(pages, "_decoded", None)
    assert {name: array.shape for name, array in read(data).items()} == {
        "id": (100,),
        "t.slots": (100, 4),
        "last_use": (100,),
    }
    assert list(read(data, ["last_use"])) == ["last_use"]


@pytest.mark.parametrize(
    ("options", "nullable"),
    [
        ({"compression": "none", "use_dictionary": True}, False),
        ({"compression": "none", "use_dictionary": False, "data_page_version": "2.0"}, False),
        ({"compression": "none", "use_dictionary": False, "use_byte_stream_split": ["t.slots.list.element"]}, False),
        ({"compression": "none", "use_dictionary": False}, True),
    ],
)
def test_other_forms_are_left_to_arrow(options: dict[str, Any], nullable: bool) -> None:
    wanted = table(50, 3, nullable=nullable)
    check_equal(read(written(wanted, 20, **options)), wanted)
