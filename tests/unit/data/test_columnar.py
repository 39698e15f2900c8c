"""Parquet, Arrow tables and pandas give the bits that the text parser gives."""

import csv as stdlib_csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from heterps.data import (
    BadRows,
    Bucket,
    Categories,
    Category,
    Cross,
    Dataset,
    Id,
    Ids,
    Match,
    Number,
    Salted,
    Schema,
    Split,
    csv,
    dense,
    frame,
    hash_bytes,
    label,
    parquet,
    ragged,
    salt_of,
    sparse,
)
from heterps.data.text.numeric import log1p
from heterps.errors import DataError

SCHEMA = Schema.of(
    sparse(
        "ids",
        Category("s"),
        Category("n"),
        Id("k"),
        Bucket("v", (-1.0, 0.0, 2.5)),
        Cross((Category("s"), Id("k"), Category("n"))),
        Salted("m"),
        Salted("k"),
    ),
    dense("x", Number("v"), Number("n", log=True, mean=0.5, std=3.0, missing=-1.0)),
    ragged("tags", Categories("t"), Ids("u")),
    label("y", Match("s", "yes")),
)

rows = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["yes", "no", "ümläut", "x" * 30]) | st.text("abc", max_size=9),
        st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
        st.integers(0, 2**63 - 1),
        st.none() | st.floats(-1e6, 1e6, width=32),
        st.lists(st.text("pq", min_size=1, max_size=3), max_size=4),
        st.lists(st.integers(0, 2**63 - 1), max_size=3),
        st.none() | st.integers(0, 2**32 - 1),
    ),
    min_size=1,
    max_size=30,
)


def columns_of(data: Dataset, batch_size: int) -> dict[str, list]:
    out: dict[str, list] = {name: [] for name in data.schema.names}
    for split in data.splits():
        for batch in data.read(split, batch_size=batch_size):
            for name, column in batch.columns.items():
                out[name] += column.tolist()
    return out


def write_csv(path: Path, table: list[tuple]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = stdlib_csv.writer(file, lineterminator="\n")
        writer.writerow("snkvtum")
        for s, n, k, v, t, u, m in table:
            integers = ["" if value is None else value for value in (n, m)]
            lists = "|".join(t), "|".join(map(str, u))
            writer.writerow([s or "", integers[0], k, "" if v is None else repr(v), *lists, integers[1]])


def arrow(table: list[tuple], as_lists: bool, encoded: bool) -> pa.Table:
    s, n, k, v, t, u, m = map(list, zip(*table, strict=True))
    text = pa.array(s, pa.string())
    return pa.table(
        {
            "s": text.dictionary_encode() if encoded else text,
            "n": pa.array(n, pa.int64()),
            "m": pa.array(m, pa.uint32() if encoded else pa.int64()),
            "k": pa.array(k, pa.uint64()),
            "v": pa.array(v, pa.float32() if encoded else pa.float64()),
            "t": pa.array(t, pa.list_(pa.string())) if as_lists else pa.array(["|".join(i) for i in t]),
            "u": pa.array(u, pa.list_(pa.uint64())) if as_lists else pa.array(["|".join(map(str, i)) for i in u]),
        }
    )


@settings(max_examples=40)
@given(rows, st.integers(1, 9), st.booleans(), st.booleans())
def test_text_parquet_and_frames_give_the_same_bits(tmp_path_factory, table, batch_size, as_lists, encoded) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("twin")
    write_csv(folder / "t.csv", table)
    memory = arrow(table, as_lists, encoded)
    pq.write_table(memory, folder / "t.parquet", row_group_size=7)
    expected = columns_of(csv(folder / "t.csv", SCHEMA), batch_size)
    assert columns_of(parquet(folder / "t.parquet", SCHEMA), batch_size) == expected
    assert columns_of(frame(memory, SCHEMA, split_cost=5), batch_size) == expected


@given(st.floats(0, 1e30))
def test_own_logarithm(value: float) -> None:
    assert log1p(value) == pytest.approx(math.log1p(value), rel=1e-9, abs=1e-13)


def test_logarithm_of_nothing_is_nothing() -> None:
    assert log1p(0.0) == 0.0


def test_pandas_columns_of_every_type() -> None:
    data = pd.DataFrame(
        {
            "cat": pd.Categorical(["a", "b", None, "a"]),
            "text": ["u", None, "v", "w"],
            "small": np.array([1, -2, 0, 1], np.int8),
            "flag": [True, False, True, True],
            "real": [0.5, math.nan, -1.0, 1.0],
            "y": [0, 1, 1, 0],
        }
    )
    got = columns_of(frame(data), 3)
    assert got["y"] == [0.0, 1.0, 1.0, 0.0]
    assert got["x"] == [[1.0, 1.0, 0.5], [-2.0, 0.0, 0.0], [0.0, 1.0, -1.0], [1.0, 1.0, 1.0]]
    assert got["ids"][2] == [hash_bytes(b"", salt_of("cat")), hash_bytes(b"v", salt_of("text"))]
    hashed = frame(data, Schema.of(sparse("ids", Category("small"), Category("flag"))))
    assert columns_of(hashed, 4)["ids"][1] == [hash_bytes(b"-2", salt_of("small")), hash_bytes(b"0", salt_of("flag"))]


def test_bytes_of_one_length_are_text(tmp_path: Path) -> None:
    keys = [b"ab", b"cd", None]
    pq.write_table(pa.table({"key": pa.array(keys, pa.binary(2)), "y": [0, 1, 1]}), tmp_path / "a.parquet")
    got = columns_of(parquet(tmp_path / "a.parquet"), 3)
    assert got["ids"] == [[hash_bytes(key or b"", salt_of("key"))] for key in keys]


def test_a_table_without_rows_is_named_by_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.string()), "y": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"^there are no rows to read in [^ ]*a\.parquet$"):
        parquet(tmp_path / "a.parquet").splits()


def test_bad_rows_are_left_out_and_counted_by_file_and_row(tmp_path: Path) -> None:
    table = pa.table({"k": [1, -1, 2, None, 4], "v": [0.0, 1.0, math.inf, 3.0, 4.0]})
    pq.write_table(table, tmp_path / "b.parquet")
    data = parquet(tmp_path / "b.parquet", Schema.of(sparse("ids", Id("k")), dense("x", Number("v"))))
    bad = BadRows()
    got = [row for batch in data.read(data.splits()[0], batch_size=2, bad=bad) for row in batch["ids"][:, 0].tolist()]
    assert got == [1, 4]
    assert [(row.line, row.reason) for row in bad.first] == [
        (2, "not an id in column 'k'"),
        (3, "not a finite number in column 'v'"),
        (4, "not an id in column 'k'"),
    ]
    again = [row for batch in data.read(data.splits()[0], batch_size=1, start=1) for row in batch["ids"][:, 0].tolist()]
    assert again == [4]


def test_row_groups_are_splits_and_other_columns_are_not_read(tmp_path: Path) -> None:
    table = pa.table({"y": np.arange(100.0), "junk": [[{"deep": i}] for i in range(100)], "k": np.arange(100)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    data = parquet(tmp_path / "a.parquet", Schema.of(label("y", Number("y")), sparse("ids", Id("k"))), split_cost=1)
    splits = data.splits()
    assert [(s.pieces[0].begin, s.pieces[0].end) for s in splits] == [(i, i + 1) for i in range(10)]
    assert columns_of(data.select("y"), 7)["y"] == list(range(100))
    for scope in ("local", "global"):
        mixed = data.shuffle(scope)  # type: ignore[arg-type]
        assert sorted(columns_of(mixed, 7)["y"]) == list(range(100))
    third = Split.from_json(splits[3].to_json())
    assert [batch["y"].tolist() for batch in data.read(third, batch_size=4, start=1)] == [[34, 35, 36, 37], [38, 39]]


def test_wrong_files_and_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_bytes(b"hello there, this is text")
    times = pa.array([1], pa.timestamp("s"))
    pq.write_table(pa.table({"a": [1.0], "when": times, "list": [[1]]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"no\.parquet is no Parquet file"):
        parquet(tmp_path / "no.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has no column 'b'; it has a, when, list"):
        columns_of(parquet(tmp_path / "a.parquet", Schema.of(label("y", Number("b")))), 1)
    with pytest.raises(DataError, match=r"'when' has type timestamp\[ms\]: expected numbers"):
        columns_of(parquet(tmp_path / "a.parquet", Schema.of(label("y", Number("when")))), 1)
    with pytest.raises(DataError, match=r"'list' has type .*: a category or id needs text or integers"):
        columns_of(parquet(tmp_path / "a.parquet", Schema.of(sparse("ids", Category("list")))), 1)
    with pytest.raises(DataError, match=r"'when' has type timestamp\[ms\]: a category or id needs text or integers"):
        columns_of(parquet(tmp_path / "a.parquet", Schema.of(sparse("ids", Salted("when")))), 1)
    with pytest.raises(DataError, match="no column 'z' to be the label; there are a, when, list"):
        parquet(tmp_path / "a.parquet", label="z")
    with pytest.raises(DataError, match="the frame has no column 'b'; it has a"):
        frame(pd.DataFrame({"a": [1]}), Schema.of(label("y", Number("b"))))


def test_a_truncated_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"y": np.random.default_rng(0).random(50_000)}), path, compression="zstd")
    raw = bytearray(path.read_bytes())
    raw[1000:200_000] = b"\0" * 199_000
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"cannot read row group 0 of .*t\.parquet"):
        columns_of(parquet(path, Schema.of(label("y", Number("y")))), 1000)


def test_text_with_a_small_dictionary_is_found_from_the_footer(tmp_path: Path) -> None:
    from heterps.data.columnar.parquet_files import _text_columns

    few, many = [f"v{i % 9}" for i in range(5000)], [f"a rather long value {i}" for i in range(5000)]
    table = pa.table({"few": few, "many": many, "n": list(range(5000))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    assert _text_columns(str(tmp_path / "a.parquet"), ["few", "many", "n"]) == ["few"]
    pq.write_table(table, tmp_path / "b.parquet", use_dictionary=False)
    assert _text_columns(str(tmp_path / "b.parquet"), ["few", "many", "n"]) == []


@pytest.mark.parametrize("at", [0, 1])
def test_lists_of_one_length_are_lists(tmp_path: Path, at: int) -> None:
    """As Polars and NumPy write them; a null is an empty list, and a slice begins where it begins."""
    rows: list[list[int | None] | None] = [[1, 2**60], None, [3, 4], [5, None], [2**53 + 1, 6]]
    fields = Schema.of(ragged("h", Ids("h")), label("y", Number("y")))

    def read(kind: pa.DataType) -> tuple[list[int], list[int], int]:
        table = pa.table({"h": pa.array(rows, kind), "y": [0.0, 1.0, 0.0, 1.0, 0.0]}).slice(at)
        pq.write_table(table, tmp_path / "lists.parquet")
        bad = BadRows()
        for data in (parquet(tmp_path / "lists.parquet", fields), frame(table, fields)):
            (batch,) = [b for split in data.splits() for b in data.read(split, batch_size=9, bad=bad)]
            found = batch["h"].values.tolist(), batch["h"].offsets.tolist(), bad.count
        return found

    assert read(pa.list_(pa.int64(), 2)) == read(pa.list_(pa.int64()))
