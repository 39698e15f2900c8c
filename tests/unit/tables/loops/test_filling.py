"""An index filled by two threads is the one that a single thread fills."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from heterps.tables.loops import filling, index
from heterps.tables.loops.filling import BUCKETS, fill_index

U64 = npt.NDArray[np.uint64]
MASK = 2**64 - 1


def id_with_hash(hash_: int) -> int:
    """Return the id whose hash is given: splitmix64's finaliser backwards."""
    z = hash_ ^ hash_ >> 31 ^ hash_ >> 62
    z = z * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    z = z ^ z >> 27 ^ z >> 54
    z = z * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    z = z ^ z >> 30 ^ z >> 60
    return (z - 0x9E3779B97F4A7C15) & MASK


def filled(ids: U64, threads: int) -> tuple[int, U64]:
    """Return what filling says, and the index."""
    meta = index.new_meta(80)
    meta[index.HIGH] = meta[index.COUNT] = len(ids)
    meta[index.CAP] = max(index.LEAST, len(ids) * 1050 // int(meta[index.LOAD]))
    entries = np.zeros(int(meta[index.CAP]) + len(ids) + index.LEAST, np.uint64)
    words = np.ascontiguousarray(ids).view(np.uint32)
    return fill_index(entries, meta, words, 2, threads), entries


@pytest.mark.parametrize("n", [0, 1, 1000, 300_000])
def test_two_threads_fill_as_one_does(n: int) -> None:
    ids = np.random.default_rng(n).integers(0, 2**64 - 1, n, dtype=np.uint64)
    one, two = filled(ids, 1), filled(ids, 2)
    assert one[0] == two[0] == -1
    np.testing.assert_array_equal(one[1], two[1])
    assert np.count_nonzero(two[1]) == n


@pytest.mark.parametrize(("many", "apart"), [(0, True), (40_000, False)])
def test_a_run_that_reaches_into_the_other_half(many: int, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of equal hash right before the middle push others on; then one thread does it."""
    seen: list[bool] = []
    real = filling._halves_are_apart
    monkeypatch.setattr(filling, "_halves_are_apart", lambda *args: seen.append(real(*args)) or seen[-1])
    middle = (BUCKETS // 2) << 53
    near = [id_with_hash((middle - (1 << 32)) | k) for k in range(many)]
    others = np.random.default_rng(1).integers(0, 2**64 - 1, 300_000, dtype=np.uint64)
    ids = np.random.default_rng(2).permutation(np.concatenate([np.array(near, np.uint64), others]))
    one, two = filled(ids, 1), filled(ids, 2)
    assert seen == [apart]
    assert one[0] == two[0] == -1
    np.testing.assert_array_equal(one[1], two[1])


@pytest.mark.parametrize("bucket", [0, 5, BUCKETS // 2 - 1, BUCKETS // 2, BUCKETS // 2 + 1, BUCKETS - 1])
def test_a_double_is_found_wherever_it_stands(bucket: int) -> None:
    double = id_with_hash((bucket << 53) + 12345)
    ids = np.random.default_rng(bucket).integers(0, 2**64 - 1, 100_000, dtype=np.uint64)
    ids[[10, 99_990]] = double
    row, _ = filled(ids, 2)
    assert ids[row] == double
    assert row >= 0
