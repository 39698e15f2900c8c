"""One meaning for one value wherever it stands: CSV, TSV, Parquet, JSON lines, frames of pandas, polars and Arrow."""

import bz2
import datetime
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from heterps.data import Category, Dataset, Id, Match, Schema, csv, dense, frame, json_lines, parquet, sparse, tsv
from heterps.data.core.formats import open_dataset
from heterps.data.core.value_hash import hash_cell, hash_span, salt_of, whole_end, whole_text
from heterps.data.text.numeric import BAD_ID, MISSING, OK, parse_id, parse_number
from heterps.errors import DataError
from heterps.serving.plain_values import id_of, number_of, text_of

ROWS = 120
MOMENT = datetime.datetime(2024, 1, 1, 10)


def buffer(text: bytes) -> Any:
    return np.frombuffer(text + bytes(64), np.uint8).copy()


def with_gaps(values: list[Any]) -> list[Any]:
    return [None if n % 9 == 4 else value for n, value in enumerate(values)]


COLUMNS: dict[str, list[Any]] = {
    "user_id": with_gaps([n * 7 % 30 for n in range(ROWS)]),
    "far_apart": with_gaps([n * 7919 % 1_000_003 for n in range(ROWS)]),
    "count": with_gaps([n % 9 for n in range(ROWS)]),
    "whole": [float(n * 7 % 30) for n in range(ROWS)],
    "price": with_gaps([n % 13 / 4 for n in range(ROWS)]),
    "flag": [n % 3 == 0 for n in range(ROWS)],
    "flag_or_not": with_gaps([n % 3 == 0 for n in range(ROWS)]),
    "when": [MOMENT + datetime.timedelta(seconds=n % 50) for n in range(ROWS)],
    "far": [float("inf") if n % 50 == 7 else n / 8 for n in range(ROWS)],
    "nothing": [None] * ROWS,
}
UNCHOSEN = ("when", "nothing")


def written(folder: Path, name: str, options: dict[str, Any]) -> Iterator[tuple[str, Dataset]]:
    """Yield the same rows in every format, as the libraries that people have write them."""
    rows = {"y": [n % 2 for n in range(ROWS)], name: COLUMNS[name]}
    by_pandas, by_polars, by_arrow = pd.DataFrame(rows), pl.DataFrame(rows), pa.table(rows)
    by_pandas.to_csv(folder / "a.csv", index=False)
    yield "CSV of pandas", csv(folder / "a.csv", **options)
    by_pandas.to_csv(folder / "a.tsv", index=False, sep="\t")
    yield "TSV of pandas", tsv(folder / "a.tsv", **options)
    if name != "when":  # which polars writes with all its digits
        by_polars.write_csv(folder / "b.csv")
        yield "CSV of polars", csv(folder / "b.csv", **options)
    if name not in ("when", "far"):  # JSON has no infinity
        by_pandas.to_json(folder / "a.jsonl", orient="records", lines=True)
        yield "JSON of pandas", json_lines(folder / "a.jsonl", **options)
    by_pandas.to_parquet(folder / "a.parquet")
    yield "Parquet of pandas", parquet(folder / "a.parquet", **options)
    by_polars.write_parquet(folder / "b.parquet")
    yield "Parquet of polars", parquet(folder / "b.parquet", **options)
    yield "pandas", frame(by_pandas, **options)
    yield "polars", frame(by_polars, **options)
    yield "Arrow", frame(by_arrow, **options)


def made(data: Dataset) -> list[Any]:
    """Return what columns are taken for, and the bits of all batches."""
    assert data.study is not None
    recipes = [study.recipe for study in data.study.columns]
    batches = [batch for split in data.splits() for batch in data.read(split, batch_size=50)]
    return [*recipes, *(np.asarray(batch[column.name]).tobytes() for batch in batches for column in data.schema)]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        (name, chosen)
        for name in COLUMNS
        for chosen in ("", "categorical", "numeric")
        if name not in UNCHOSEN or not chosen
    ],
)
def test_rows_are_the_same_bits_in_every_format(tmp_path: Path, name: str, chosen: str) -> None:
    found = {how: made(data) for how, data in written(tmp_path, name, {chosen: [name]} if chosen else {})}
    assert {how: bits == found["Arrow"] for how, bits in found.items()} == dict.fromkeys(found, True)


def test_how_finely_times_are_counted_is_no_part_of_them() -> None:
    fields = Schema.of(sparse("ids", Category("when")))
    for zone in (None, "UTC", "Europe/Oslo"):
        columns = [pa.array([MOMENT, None], pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns")]
        ids = [next(iter(read(frame(pa.table({"when": column}), fields))))["ids"].tolist() for column in columns]
        assert all(each == ids[0] for each in ids)
    assert text_of(MOMENT) == b"2024-01-01 10:00:00"


def read(data: Dataset) -> Iterator[Any]:
    return data.read(data.splits()[0], batch_size=100)


@given(st.one_of(st.from_regex(r"\A-?[0-9]{0,3}\.?0{0,2}\Z"), st.text("0123456789.-e", max_size=12)))
def test_a_whole_float_counts_as_its_integer_in_loops_as_in_python(text: str) -> None:
    cell = text.encode()
    end = whole_end(buffer(cell), 0, len(cell))
    assert cell[:end] == whole_text(cell) == text_of(text)
    assert hash_span(buffer(cell), 0, end, np.uint64(salt_of("c"))) == hash_cell(cell, salt_of("c"))
    status, found = parse_id(buffer(cell), 0, len(cell))
    if text and status == OK:
        assert int(found) == id_of(text)
    elif text and status == BAD_ID:
        with pytest.raises(ValueError, match="not an id"):
            id_of(text)


@pytest.mark.parametrize(("text", "counts_as"), [("123.0", 123), ("-7.0", -7), ("1.50", "1.50"), ("1.00", "1.00")])
def test_what_counts_as_an_integer(text: str, counts_as: Any) -> None:
    assert text_of(text) == text_of(counts_as)
    fields = Schema.of(sparse("ids", Category("a")), dense("x", Match("a", str(counts_as))))
    of_text, of_value = (next(read(frame(pa.table({"a": [value]}), fields))) for value in (text, counts_as))
    assert of_text["ids"].tolist() == of_value["ids"].tolist()
    assert (of_text["x"].tolist(), of_value["x"].tolist()) == ([[1.0]], [[1.0]])


def test_ids_may_be_written_as_floats(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n12.0\n12\n12.5\n")
    data = csv(tmp_path / "a.csv", Schema.of(sparse("ids", Id("a"))))
    assert [row for batch in read(data) for row in batch["ids"].tolist()] == [[12], [12]]


@pytest.mark.parametrize(
    ("word", "number"), [("true", 1.0), ("True", 1.0), ("FALSE", 0.0), ("tru", None), ("truex", None), ("-true", None)]
)
def test_true_and_false_are_numbers(word: str, number: float | None) -> None:
    status, value = parse_number(buffer(word.encode()), 0, len(word))
    assert (status == OK, status == MISSING) == (number is not None, False)
    if number is None:
        with pytest.raises(ValueError, match="not a number"):
            number_of(word)
    else:
        assert value == number == number_of(word)


def test_text_that_is_said_to_be_numbers_has_bad_rows_and_no_other_fault() -> None:
    texts = [f"t{n}" for n in range(ROWS)]
    for table in (pa.table({"a": texts}), pl.DataFrame({"a": texts}), pd.DataFrame({"a": texts})):
        assert list(read(frame(table, numeric=["a"]))) == []


def test_a_column_that_says_true_or_na_is_one_of_truth(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y,a\n" + "1,TRUE\n0,NA\n0,false\n" * 9)
    study = csv(tmp_path / "a.csv").study
    assert study is not None
    assert [(column.role, column.look.truth) for column in study.columns] == [("label", False), ("number", True)]


def test_categories_of_polars_are_categories_by_their_type() -> None:
    column = pl.Series(["a", "b", None] * 4, dtype=pl.Categorical)
    study = frame(pl.DataFrame({"y": [0, 1, 1] * 4, "a": column})).study
    assert study is not None
    assert study.columns[1].why == "a category by its type"


@pytest.mark.parametrize(
    ("name", "pack", "what"),
    [
        ("a.csv.bz2", bz2.compress, "compressed with bzip2: unpack it"),
        ("a.csv.xz", lzma.compress, "compressed with xz: unpack it"),
        ("a.csv", lambda text: b"PK\x03\x04" + text, "a ZIP archive"),
        ("a.csv", lambda text: b"ARROW1\0\0" + text, "an Arrow file"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path: Path, name: str, pack: Callable[[bytes], bytes], what: str) -> None:
    (tmp_path / name).write_bytes(pack(b"y,a\n1,2\n"))
    with pytest.raises(DataError, match=f"expected a header line, but the file is {what}"):
        open_dataset(tmp_path / name)


def test_what_is_no_frame_is_refused_by_its_type() -> None:
    with pytest.raises(DataError, match=r"the frame is a Series: expected one of pandas, polars or Arrow"):
        frame(pd.Series([1, 2]))
    with pytest.raises(DataError, match=r"the frame is a LazyFrame: expected one of pandas, polars or Arrow"):
        frame(pl.DataFrame({"a": [1]}).lazy())
