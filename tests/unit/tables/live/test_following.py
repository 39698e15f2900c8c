"""Followers of a shard's tables hear of all that changed, and their changes bring no deleted row back."""

import numpy as np

from heterps.protocol import BatchKey
from heterps.tables import (
    SGD,
    GroupSpec,
    Moment,
    RowGradients,
    Shard,
    TableSpec,
    begin_following,
    changes_since,
    stop_following,
    without_deleted,
)

IDS = np.arange(10, dtype=np.uint64)


def shard() -> Shard:
    made = Shard([GroupSpec("g", (TableSpec("a", 2, SGD()), TableSpec("b", 1, SGD())))], adds=True)
    made.pull("g", IDS)
    return made


def change(tables: Shard, *ids: int, by: float = 1.0) -> None:
    at = np.array(ids, np.uint64)
    key = BatchKey(0, 0, tables.version)
    tables.apply(key, {"g": RowGradients(at, np.full((len(at), 3), by, np.float32))})


def test_only_what_changed_since_is_told_and_again_if_the_answer_was_lost() -> None:
    tables = shard()
    start = begin_following(tables, "r")
    change(tables, 1, 2)
    first = changes_since(tables, "r", start)
    assert first is not None
    assert sorted(first[1]["g"].ids.tolist()) == [1, 2]
    change(tables, 3)
    again = changes_since(tables, "r", start)
    assert again is not None
    assert sorted(again[1]["g"].ids.tolist()) == [1, 2, 3]
    later = changes_since(tables, "r", again[0])
    assert later is not None
    assert len(later[1]["g"].ids) == 0
    where = np.argsort(again[1]["g"].ids)
    np.testing.assert_array_equal(again[1]["g"].values[where], tables.pull("g", IDS[1:4]).values)


def test_a_moment_of_other_tables_or_of_one_who_was_forgotten_is_not_known() -> None:
    tables, others = shard(), shard()
    start = begin_following(tables, "r")
    assert changes_since(others, "r", start) is None
    assert Moment.from_json([start.incarnation, dict(start.marks)]) == start
    stop_following(tables, "r")
    change(tables, 1)
    assert changes_since(tables, "r", start) is None


def test_deleted_ids_are_told_and_changes_of_them_left_out() -> None:
    tables = shard()
    start = begin_following(tables, "r")
    tables.group("g").delete(IDS[:3])
    sent = {"g": RowGradients(np.array([2, 5, 77], np.uint64), np.ones((3, 3), np.float32))}
    kept = without_deleted(tables, start, sent)
    assert kept["g"].ids.tolist() == [5, 77], "an id that never had a row is new"
    tables.apply(BatchKey(0, 0, 0), kept)
    first = Shard([tables.group("g").spec]).pull("g", np.array([77], np.uint64)).values
    np.testing.assert_allclose(tables.pull("g", np.array([77], np.uint64)).values, first + 1, atol=1e-6)
    told = changes_since(tables, "r", start)
    assert told is not None
    assert sorted(told[1]["g"].deleted.tolist()) == [0, 1, 2]
    assert without_deleted(tables, told[0], sent)["g"] is sent["g"], "whoever has heard of it sends it anew"
