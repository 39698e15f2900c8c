"""The index of rows on disk against a dict: whatever is done to both, they know the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heterps.tables.hashing import mix
from heterps.tables.live.cold_rows import SHARE, ColdRows, DiskTier
from heterps.tables.loops.cold_index import CELL, FIRST, FULL, LEVEL, age_cells, chains_of, list_alike
from tests.unit.tables.snapshots.test_snapshot import equal_hashes

Array = np.ndarray[Any, Any]


def known_of(ids: Array, bits: int) -> Array:
    """The bits of hashes that an index knows which began with so many chains."""
    hashes = np.array([int(mix(np.uint64(id_))) for id_ in ids.tolist()], np.uint64)
    known: Array = (hashes >> np.uint64(32)) | ((hashes >> np.uint64(16) & np.uint64(0xFFFF)) << np.uint64(32))
    return known & np.uint64((1 << (bits + 16)) - 1)


class Played:
    """An index, and what should be in it: position and count of each id."""

    def __init__(self, index: ColdRows) -> None:
        self.index, self.known, self.free = index, dict[int, tuple[int, int]](), 0

    def put(self, ids: Array, counts: Array) -> None:
        positions = np.arange(self.free, self.free + len(ids))
        self.free += len(ids)
        self.index.enter(ids.view(np.uint32).reshape(-1, 2), positions, counts)
        self.known |= dict(zip(ids.tolist(), zip(positions.tolist(), counts.tolist(), strict=True), strict=True))

    def remove(self, ids: Array) -> None:
        """With where they were, for most: what is taken out moves others."""
        positions, places = self.positions(ids), np.full(len(ids), -1, np.int64)
        at, found, where = self.index.candidates(ids)
        same = found == positions[at]
        places[at[same]] = where[same]
        places[::7] = -1
        found = self.index.remove(ids, positions, places)
        assert found.tolist() == [self.known.pop(id_)[1] for id_ in ids.tolist()]

    def move(self, ids: Array) -> None:
        old, new = self.positions(ids), np.arange(self.free, self.free + len(ids))
        self.free += len(ids)
        self.index.log.append = lambda words: new  # type: ignore[method-assign]
        self.index.log.release = lambda positions: None  # type: ignore[method-assign]
        self.index.rewrite(ids.view(np.uint32).reshape(-1, 2), old)
        for id_, position in zip(ids.tolist(), new.tolist(), strict=True):
            self.known[id_] = (position, self.known[id_][1])

    def positions(self, ids: Array) -> Array:
        return np.array([self.known[id_][0] for id_ in ids.tolist()], np.int64)

    def check(self, absent: Array) -> None:
        ids = np.array(list(self.known), np.uint64)
        positions = self.positions(ids)
        assert len(self.index) == len(ids)
        np.testing.assert_array_equal(self.index.positions(), np.sort(positions))
        assert self.index.has(ids, positions).all()
        assert not self.index.has(ids, positions + self.free).any()
        asked, bits = np.concatenate([ids, absent]), int(self.index._state[FIRST])
        at, found, places = self.index.candidates(asked)
        same: dict[int, set[int]] = {}
        for hash_, position in zip(known_of(ids, bits).tolist(), positions.tolist(), strict=True):
            same.setdefault(hash_, set()).add(position)
        wanted = [(i, where) for i, hash_ in enumerate(known_of(asked, bits).tolist()) for where in same.get(hash_, ())]
        assert sorted(zip(at.tolist(), found.tolist(), strict=True)) == sorted(wanted)
        for each, likely in zip((at, found, places), self.index.likely(asked), strict=True):
            np.testing.assert_array_equal(each, likely)
        assert self.index.stand(found, places).all()
        assert not self.index.stand(found + 1, places).any()


@pytest.fixture(params=[16, 18])
def played(tmp_path: Any, request: pytest.FixtureRequest) -> Played:
    """An index that begins with so many chains, as bits: more where there is much memory."""
    index = ColdRows(2, DiskTier(tmp_path, 0), (SHARE * 4 * CELL) << request.param)
    assert chains_of(index._state) == 1 << request.param
    index.log._segments = 1 << 10  # positions up to it
    return Played(index)


def test_an_index_knows_what_a_dict_knows(played: Played) -> None:
    """With chains that are split early and grow long all the same, and 60 ids that have one hash."""
    rng = np.random.default_rng(0)
    played.index._state[FULL] = 0
    ids = np.unique(np.concatenate([rng.integers(0, 2**63, 6_000).astype(np.uint64), equal_hashes(60)]))
    ids = rng.permutation(ids)
    for step in range(8):
        known = np.array([id_ in played.known for id_ in ids.tolist()])
        fresh = rng.permutation(ids[~known])[: 1200 + 400 * step]
        played.put(fresh, rng.integers(0, 3, len(fresh)).astype(np.uint8))
        played.remove(rng.permutation(np.array(list(played.known), np.uint64))[: 600 * (step % 4)])
        played.move(rng.permutation(np.array(list(played.known), np.uint64))[:500])
        played.check(ids[~known][:200])
    assert chains_of(played.index._state) > 1 << int(played.index._state[FIRST])
    played.remove(np.array(list(played.known), np.uint64))
    played.check(ids[:100])
    assert len(played.index.candidates(ids)[0]) == 0


def test_counts_are_lowered_and_never_below_none(played: Played) -> None:
    ids = np.arange(900, dtype=np.uint64)
    played.put(ids, (ids % 3).astype(np.uint8))
    played.index.age(True)
    played.index.age(False)
    played.known = {id_: (at, max(count - 1, 0)) for id_, (at, count) in played.known.items()}
    played.check(ids + 10_000)
    age_cells(played.index._cells, 0, 2000)
    assert not played.index.remove(ids, played.positions(ids)).any()


def test_ids_of_one_hash_are_listed(played: Played) -> None:
    same = equal_hashes(45)
    ids = np.concatenate([np.arange(50_000, dtype=np.uint64), same])
    played.put(ids, np.zeros(len(ids), np.uint8))
    cells, heads, _ = played.index._index
    found, marks = np.empty(100, np.int64), np.zeros(1 << 16, np.uint8)
    n = int(list_alike(cells, heads, 0, chains_of(played.index._state), marks, found))
    assert not marks.any()
    assert set(found[:n].tolist()) >= set(range(50_000, 50_045))
    assert n <= 45 + 4, "two of so few are alike once in a while"


def test_a_row_takes_seven_bytes(played: Played) -> None:
    """Where rows are many; with chains a tenth as many as in truth, of the same length."""
    rows = 1_300_000
    ids = np.arange(rows, dtype=np.uint64)
    played.index._state[LEVEL] = 13
    played.index.enter(ids.view(np.uint32).reshape(-1, 2), np.arange(rows), np.zeros(rows, np.uint8))
    assert played.index.nbytes <= 7 * rows
