"""The index against a plain dict, and the bounds it promises while it grows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.compiled import entry_loop
from heterps.tables import SGD, Adam, GroupSpec, RowWiseAdaGrad, TableSpec, Zeros
from heterps.tables.hashing import _mix_python, mix
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.row_layout import RowLayout
from heterps.tables.loops import index
from heterps.tables.loops.row_loops import NO_ROW, guess_rows
from heterps.tables.loops.vector_lanes import first_of_hash

guess = entry_loop(lambda s, ids, order, hi, rows: guess_rows(s, ids, order, 0, hi, hi, rows))
first = entry_loop(lambda entries, at, h: first_of_hash(entries, at, h))


def partition(dim: int = 8) -> RowPartition:
    return RowPartition(RowLayout(GroupSpec("g", (TableSpec("t", dim, SGD(), Zeros()),)), 0))


def create(part: RowPartition, ids: list[int]) -> np.ndarray:
    n, rows = len(ids), np.empty(len(ids), np.uint32)
    out = np.empty(n * part.layout.width, np.float32)
    part.pull(np.array(ids, np.uint64), np.arange(n, dtype=np.int32), 0, n, rows, out, True, 0)
    return rows


def find(part: RowPartition, ids: list[int]) -> np.ndarray:
    rows = np.empty(len(ids), np.uint32)
    part.find(np.array(ids, np.uint64), np.arange(len(ids), dtype=np.int32), 0, len(ids), rows)
    return rows


def check_rules(part: RowPartition) -> None:
    """Rules 1 to 3 of index.py, by brute force."""
    meta, entries = part.meta, part.store.entries
    used = int(meta[index.CAP]) + len(part) + 1
    places = np.flatnonzero(entries[:used])
    assert len(places) == len(part)
    assert not entries[used : used + 1000].any()
    hashes = (entries[places] >> np.uint64(32)).astype(np.int64)
    assert (np.diff(hashes) >= 0).all()
    for place, h in zip(places.tolist(), hashes.tolist(), strict=True):
        home = int(index.home(meta, np.int64(h)))
        assert home <= place
        assert entries[home : place + 1].all()


def test_the_compiled_hash_is_the_documented_one() -> None:
    for x in (0, 1, 2**63, 2**64 - 2):
        assert int(mix(np.uint64(x))) == _mix_python(x)


operations = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 3000), max_size=400, unique=True)), max_size=12)


@settings(max_examples=40, deadline=None)
@given(operations)
def test_index_is_a_dict(steps: list[tuple[bool, list[int]]]) -> None:
    part, plain = partition(), {}
    for insert, ids in steps:
        if insert:
            plain.update(zip(ids, create(part, ids).tolist(), strict=True))
        else:
            gone = [i for i in ids if i in plain]
            part.delete(np.array([plain.pop(i) for i in gone], np.int64))
        assert len(part) == len(plain)
        assert len(set(plain.values())) == len(plain)
    assert find(part, list(range(3000))).tolist() == [plain.get(i, NO_ROW) for i in range(3000)]
    check_rules(part)


@pytest.mark.parametrize("dim", [1, 8, 64])
def test_growth_moves_few_entries_at_a_time(dim: int) -> None:
    part, rng = partition(dim), np.random.default_rng(0)
    ids = rng.choice(2**62, 60_000, replace=False)
    grown = 0
    for start in range(0, len(ids), 500):
        before = int(part.meta[index.MOVED])
        create(part, ids[start : start + 500].tolist())
        grown += bool(part.meta[index.OLD])
        # Equal 32-bit hashes move together, hence the slack.
        assert part.meta[index.MOVED] - before <= 500 * (index.STEP + 1)
        if start % 10_000 == 0:
            check_rules(part)
    assert grown > 10
    assert part.meta[index.PEAK] <= index.STEP + 4
    assert (find(part, ids.tolist()) == np.arange(len(ids))).all()


@pytest.mark.parametrize(("dim", "rule"), [(8, SGD()), (16, SGD()), (8, Adam()), (16, RowWiseAdaGrad()), (15, SGD())])
def test_index_and_rows_take_at_most_1_35_of_the_payload_while_growing(dim: int, rule: SGD) -> None:
    part = RowPartition(RowLayout(GroupSpec("g", (TableSpec("t", dim, rule, Zeros()),)), 0))
    payload = 8 + 4 * (dim + rule.slots(dim))
    worst = 0.0
    for start in range(0, 200_000, 1000):
        create(part, list(range(start, start + 1000)))
        if len(part) > 10_000:
            worst = max(worst, part.nbytes / (len(part) * payload))
    assert 1.0 < worst <= 1.35


def test_deleted_rows_are_used_again() -> None:
    part = partition()
    rows = create(part, list(range(1000)))
    part.delete(rows[:500])
    create(part, list(range(2000, 2500)))
    assert part.high == 1000
    check_rules(part)


def test_the_first_entry_of_a_hash_is_found_wherever_it_stands_in_its_line() -> None:
    entries = np.zeros(24, np.uint64)
    entries[8:16] = (np.arange(8, dtype=np.uint64) // np.uint64(2) + np.uint64(5)) << np.uint64(32) | np.uint64(7)
    found = [int(first(entries, np.uint64(8), np.uint64(h))) for h in (4, 5, 6, 7, 8, 9)]
    assert found == [8, 0, 2, 4, 6, 8]


def test_rows_are_guessed_right_while_the_index_grows() -> None:
    """Whoever guesses wrong is right in the end, but slow: no other test would see it."""
    part, ids = partition(), np.random.default_rng(5).integers(0, 2**63, 20_000).astype(np.uint64)
    growing = set()
    for n in range(500, 20_001, 1500):
        rows, guessed = create(part, ids[:n].tolist()), np.empty(n, np.uint32)
        guess(part.store, ids, np.arange(n, dtype=np.int32), n, guessed)
        np.testing.assert_array_equal(guessed, rows)
        growing.add(bool(part.meta[index.OLD]))
    assert growing == {True, False}
    absent, order = np.arange(50, dtype=np.uint64), np.arange(50, dtype=np.int32)
    guessed = np.empty(50, np.uint32)
    guess(part.store, absent, order, 50, guessed)
    assert (guessed == NO_ROW).all()
