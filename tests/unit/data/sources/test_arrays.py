import numpy as np
import pytest
from hypothesis import given, strategies as st

from heterps.data import arrays, dense, label, sparse
from heterps.errors import DataError
from heterps.ragged import Ragged


def test_kinds_are_inferred_and_rows_come_in_order() -> None:
    tags = Ragged.from_lists([[i] * (i % 4) for i in range(20)])
    data = arrays(
        {"x": np.arange(40.0).reshape(20, 2), "ids": np.arange(20)[:, None], "y": np.arange(20), "tags": tags}
    )
    assert [(f.name, f.kind) for f in data.schema] == [
        ("x", "dense"),
        ("ids", "sparse"),
        ("y", "label"),
        ("tags", "ragged"),
    ]
    seen = 0
    for batch in data.read(data.splits()[0], batch_size=6):
        np.testing.assert_array_equal(batch["y"], np.arange(seen, seen + batch.size))
        assert batch["tags"] == tags[seen : seen + batch.size]
        seen += batch.size
    assert seen == 20


def test_shuffled_columns_stay_together() -> None:
    lists = [[i] * (i % 5) for i in range(300)]
    data = arrays({"ids": np.arange(300)[:, None], "y": np.arange(300), "tags": Ragged.from_lists(lists)}).shuffle(
        window=50
    )
    seen = []
    for batch in data.read(data.splits()[0], batch_size=7):
        rows = batch["y"].astype(int).tolist()
        assert batch["ids"][:, 0].tolist() == rows
        assert batch["tags"].tolist() == [lists[i] for i in rows]
        seen += rows
    assert sorted(seen) == list(range(300)) != seen


def test_a_ring_keeps_earlier_batches_valid() -> None:
    data = arrays({"y": np.arange(30)})
    batches = list(data.read(data.splits()[0], batch_size=10, ring=3))
    assert [batch["y"][0] for batch in batches] == [0, 10, 20]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([[-1]]), "'ids' holds the negative id -1"),
        (np.array([[2**64 - 1]], np.uint64), "'ids' holds the id 2\\*\\*64 - 1, which is reserved"),
        (np.array([["a"]]), "'ids' has type <U1"),
        (np.array([[0.5]], object), "'ids' holds 0.5: ids are integers"),
        (np.array([[2**64 - 1]], object), "'ids' holds 18446744073709551615"),
    ],
)
def test_illegal_ids_are_refused_by_name(ids: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        arrays({"ids": ids}, {} if ids.dtype.kind == "U" else {"ids": "sparse"})


def test_python_integers_of_both_halves_of_the_range() -> None:
    data = arrays({"ids": np.array([[1], [2**64 - 2]], object)}, {"ids": "sparse"})
    (batch,) = data.read(data.splits()[0], batch_size=2)
    assert batch["ids"].tolist() == [[1], [2**64 - 2]]


def test_lengths_must_agree() -> None:
    with pytest.raises(DataError, match="same number of rows"):
        arrays({"x": np.zeros((3, 1)), "y": np.zeros(2)})


def test_fields_check_what_they_are_made_of() -> None:
    from heterps.data import Category, Number

    with pytest.raises(DataError, match="is made of ids"):
        sparse("ids", Number("a"))
    with pytest.raises(DataError, match="is made of numbers"):
        dense("x", Category("a"))
    with pytest.raises(DataError, match="2 recipes"):
        label("y", Number("a"), Number("b"))


@given(rows=st.integers(1, 5000), parts=st.integers(1, 40), batch_size=st.integers(1, 600))
def test_spread_data_has_the_batches_of_one_split(rows: int, parts: int, batch_size: int) -> None:
    whole = arrays({"x": np.arange(rows, dtype=np.float32)})
    spread = whole.spread(parts, batch_size)
    pieces = [[b["x"].copy() for b in spread.read(s, batch_size=batch_size)] for s in spread.splits()]
    expected = [b["x"].copy() for b in whole.read(whole.splits()[0], batch_size=batch_size)]
    found = [batch for piece in pieces for batch in piece]
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in expected]
    assert min(parts, len(expected)) // 2 <= len(pieces) <= parts


def test_a_split_cost_that_was_given_stays() -> None:
    given_ = arrays({"x": np.arange(100.0)}, split_cost=50)
    assert given_.spread(10, 5) is given_
