"""A predictor makes the same columns of rows as the readers do, to the bit, without their compiled loops."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from heterps.data import (
    Bucket,
    Categories,
    Category,
    Cross,
    Id,
    Ids,
    Match,
    Number,
    Salted,
    Schema,
    dense,
    hash_bytes,
    ragged,
    sparse,
)
from heterps.data.columnar.raw_rows import raw_rows
from heterps.data.core.recipes import Recipe
from heterps.errors import DataError, UnknownKindError
from heterps.ragged import Ragged
from heterps.serving.features import PlainFeatures, register_plain
from heterps.serving.plain_values import hash_texts

FIELDS = Schema.of(
    sparse(
        "ids",
        Category("city"),
        Bucket("age", (18.0, 40.5)),
        Id("user", missing=7),
        Salted("user"),
        Cross((Category("city"), Bucket("age", (30.0,)), Salted("user"))),
        Category("city", salted="other"),
    ),
    dense("x", Number("age", mean=40, std=12), Number("income", log=True, missing=-1.5)),
    dense("mixed", Match("city", "Oslo"), Number("income", log=True, mean=2.0)),
    ragged("tags", Categories("tags", separator=";"), Ids("seen", separator=" ")),
)


def by_readers(rows: Any) -> dict[str, Any]:
    """Return the columns that the columnar reader makes of rows."""
    data = raw_rows(rows, FIELDS).with_fields(FIELDS)
    (batch,) = list(data.read(data.splits()[0], batch_size=4096))
    return dict(batch.columns)


def compare(rows: Any, same: Any = None) -> None:
    wanted = by_readers(rows if same is None else same)
    found = PlainFeatures(FIELDS).columns(rows)
    assert found.keys() == wanted.keys()
    for name, column in found.items():
        if isinstance(column, Ragged):
            assert column == wanted[name]
        else:
            np.testing.assert_array_equal(column, wanted[name], err_msg=name)
            assert column.dtype == wanted[name].dtype


NUMBERS = st.one_of(
    st.none(),
    st.integers(-(10**12), 10**12),
    st.floats(-(2.0**90), 2.0**90, width=32),
    st.sampled_from(
        ["", "NA", "nan", "?", "\\N", "n/a", "None", "1e3", "-.5", "+7.", "12345678901234567890123", "1e-300"]
    ),
    st.integers(-999, 999).map(str),
    st.floats(-1e6, 1e6).map(repr),
)
TEXTS = st.one_of(
    st.none(), st.text(max_size=20), st.integers(-(2**62), 2**62), st.booleans(), st.floats(allow_nan=True)
)
ROW = st.fixed_dictionaries(
    {
        "city": TEXTS,
        "age": NUMBERS,
        "income": NUMBERS,
        "user": st.one_of(st.none(), st.integers(0, 2**63 - 1), st.integers(0, 10**18).map(str)),
        "tags": st.one_of(st.none(), st.text("ab;é", max_size=12), st.lists(st.text("ab", max_size=9), max_size=4)),
        "seen": st.one_of(st.none(), st.sampled_from(["", "3 4", "5", " 6  7 "])),
    }
)


@settings(max_examples=60, deadline=None)
@example(dict.fromkeys(("city", "age", "income", "user", "tags", "seen")))
@given(ROW)
def test_one_row_gives_the_readers_bits(row: dict[str, Any]) -> None:
    compare(row, [row])


def many(rows: int = 300) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    cities = ["Oslo", "Rome", "a longer name than eight bytes", "", "Łódź", "815"]
    return [
        {
            "city": cities[rng.integers(len(cities))],
            "age": int(rng.integers(1, 90)),
            "income": float(np.round(rng.lognormal(8), 2)),
            "user": int(rng.integers(2**40)),
            "tags": ";".join(rng.choice(["a", "b", "long tag"], rng.integers(4))),
            "seen": [int(n) for n in rng.integers(0, 99, rng.integers(3))],
        }
        for _ in range(rows)
    ]


def test_many_rows_in_any_shape() -> None:
    rows = many()
    compare(rows)
    compare(pa.Table.from_pylist(rows))
    compare(pa.Table.from_pylist(rows).to_batches()[0])
    frame = pd.DataFrame(rows).assign(
        city=lambda f: f["city"].astype("category"), age=lambda f: f["age"].astype("float")
    )
    frame.loc[5, "age"] = np.nan
    compare(frame)
    compare({name: [row[name] for row in rows] for name in rows[0]})
    lists = {"tags": [["a"], []], "seen": [[1], [2, 3]]}
    compare(
        {
            "city": np.array(["a", "b"]),
            "age": np.array([1, 2]),
            "income": [1.0, None],
            "user": np.array([1, 2]),
            **lists,
        }
    )


def test_frames_of_polars() -> None:
    compare(pytest.importorskip("polars").DataFrame(many()))


def test_dates_decimals_and_long_texts() -> None:
    row = many(1)[0]
    for value in (
        datetime.date(2024, 2, 29),
        Decimal("12.50"),
        datetime.datetime(2024, 1, 2, 3, 4, 5),
        0.1,
        1e-7,
        "x" * 999,
    ):
        compare({**row, "city": value}, [{**row, "city": value}])


def test_texts_of_any_length_are_hashed_as_the_definition_says() -> None:
    texts = [b"x" * n for n in (*range(40), 255, 256, 257, 5000)] + [b"\0", b"a\0", "é".encode()]
    salts = np.arange(len(texts), dtype=np.uint64) * np.uint64(2**60 + 7)
    wanted = [hash_bytes(text, int(salt)) for text, salt in zip(texts, salts, strict=True)]
    assert hash_texts(texts, salts).tolist() == wanted
    assert hash_texts(texts[:5], salts[:5]).tolist() == wanted[:5]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"age": "old"}, "row 2, column 'age': 'old' is not a number"),
        ({"income": float("inf")}, "row 2, column 'income': 'inf' is not a finite number"),
        ({"income": "1e99"}, "row 2, column 'income': '1e99' is not a finite number"),
        ({"user": -1}, "row 2, column 'user': '-1' is not an id"),
        ({"user": 2**64 - 1}, "row 2, column 'user'.*is not an id"),
        ({"user": 1.5}, "row 2, column 'user'.*is not an id"),
        ({"tags": 5}, "row 2, column 'tags': '5' is neither a list nor text"),
        ({"city": object()}, "row 2, column 'city'.*is object is no category"),
    ],
    ids=range(8),
)
def test_cells_that_cannot_be_used_are_named(change: dict[str, Any], says: str) -> None:
    row = many(1)[0]
    with pytest.raises(DataError, match=says):
        PlainFeatures(FIELDS).columns([row, {**row, **change}])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"city": "Oslo"}, "the rows have no column 'age', of which the model's 'ids' was made"),
        ('{"city": 1}\n{"city": ', "line 2 of the rows is not JSON"),
        ("[1]", "line 1 of the rows is of type list"),
        ([], "there are no rows"),
        ([{"city": 1}, 5], "row 2 is of type int, expected a dict"),
        (5, "rows are of type int"),
    ],
    ids=range(6),
)
def test_rows_that_cannot_be_used_are_named(rows: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        PlainFeatures(FIELDS).columns(rows)


def test_recipes_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(Recipe):
        kind = "test half"

    fields = Schema.of(sparse("ids", Half()))
    monkeypatch.setattr(Half, "sources", ("n",))
    with pytest.raises(UnknownKindError, match="register_plain"):
        PlainFeatures(fields).columns({"n": 4})
    register_plain(Half, lambda recipe, cells: np.array(cells["n"]) // 2)
    assert PlainFeatures(fields).columns({"n": 4})["ids"].tolist() == [[2]]
