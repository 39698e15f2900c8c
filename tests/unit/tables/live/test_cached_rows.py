"""Rows that a worker keeps, and gradients that it gathers."""

import numpy as np
import pytest

from heterps.errors import TableError
from heterps.tables import CachedRows, Gathered, GroupSpec, TableSpec, cached_row_bytes

SPEC = GroupSpec("g", (TableSpec("a", 3), TableSpec("b", 1)), 8)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def values(*numbers: float) -> np.ndarray:
    return np.repeat(np.array(numbers, np.float32)[:, None], SPEC.width, axis=1)


def read(rows: CachedRows, where: np.ndarray) -> np.ndarray:
    out = np.empty((len(where), SPEC.width), np.float32)
    rows.read(where, out)
    return out[:, 0]


def test_a_row_is_asked_for_once_while_it_is_new_enough() -> None:
    rows = CachedRows(SPEC, 10)
    where, lacking = rows.need(ids(1, 2), batch=0, needed=-2, now=0)
    assert lacking.all()
    again, still = rows.need(ids(2, 3), batch=1, needed=-1, now=0)
    assert still.tolist() == [False, True], "row 2 is on its way"
    rows.take(where, values(1, 2), moment=0, version=5)
    rows.take(again[still], values(3), moment=0, version=5)
    assert read(rows, again).tolist() == [2, 3]
    assert rows.need(ids(1, 2, 3), batch=2, needed=0, now=1)[1].tolist() == [False] * 3
    assert rows.need(ids(1, 2, 3), batch=3, needed=1, now=2)[1].tolist() == [True] * 3, "too old"


def test_what_comes_late_does_not_replace_what_is_newer() -> None:
    rows = CachedRows(SPEC, 10)
    where, _ = rows.need(ids(7), batch=0, needed=0, now=0)
    rows.need(ids(7), batch=1, needed=1, now=1)
    rows.take(where, values(11), moment=1, version=2)
    rows.take(where, values(10), moment=0, version=1)
    assert read(rows, where).tolist() == [11]


def test_rows_of_batches_under_way_stay_and_hot_rows_stay_longer() -> None:
    rows = CachedRows(SPEC, 4)
    for batch in range(20):
        fresh = ids(1, 2, *range(100 + 4 * batch, 104 + 4 * batch))
        where, _ = rows.need(fresh, batch, needed=batch, now=batch)
        rows.take(where, values(*range(6)), batch, 0)
        assert rows.let_go(before=batch) <= 4, "none of its own"
        assert len(rows) >= 6
        assert read(rows, where).tolist() == [0, 1, 2, 3, 4, 5]
        rows.let_go(before=batch + 1)
        assert len(rows) == 4
    assert not rows.need(ids(1, 2), 20, needed=19, now=20)[1].any(), "the two that every batch uses"


def test_a_row_that_went_and_comes_again_begins_anew() -> None:
    rows = CachedRows(SPEC, 0)
    where, _ = rows.need(ids(5), batch=0, needed=0, now=0)
    rows.take(where, values(5), 0, 0)
    assert rows.let_go(before=1) == 1
    assert len(rows) == 0
    assert rows.need(ids(5), batch=1, needed=-10, now=1)[1].all()


def test_bytes_of_a_row_are_about_what_it_takes() -> None:
    rows = CachedRows(SPEC, 1 << 14)
    rows.need(np.arange(1 << 14, dtype=np.uint64), 0, 0, 0)
    assert rows.nbytes / len(rows) == pytest.approx(cached_row_bytes(SPEC), rel=0.5)
    with pytest.raises(TableError, match="a cache of -1 rows"):
        CachedRows(SPEC, -1)


def test_gathered_gradients_are_sums_in_the_order_of_arrival() -> None:
    gathered = Gathered(SPEC)
    gathered.add(ids(5, 3), values(1, -0.0), np.array([1, 2], np.float32), None)
    gathered.add(ids(3, 9), values(4, 8), np.array([1, 1], np.float32), None)
    owed = gathered.take()
    assert owed.ids.tolist() == [5, 3, 9]
    assert owed.values[:, 0].tolist() == [1, 4, 8]
    assert owed.show.tolist() == [1, 3, 1]
    assert owed.click.tolist() == [0, 0, 0]
    assert len(gathered) == 0
    gathered.add(ids(3), values(-0.0), None, None)
    owed = gathered.take()
    assert np.signbit(owed.values).all(), "a sum of one is that one, bit by bit"
    assert owed.show.tolist() == [0]
