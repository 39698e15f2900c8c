from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.errors import TableError
from heterps.protocol import deal_shards
from heterps.tables import Router
from heterps.tables.hashing import RESERVED, shards_of

batches = st.lists(st.integers(0, 40) | st.integers(0, RESERVED - 1), max_size=300)


@settings(deadline=None)
@given(st.lists(batches, min_size=1, max_size=4), st.integers(1, 5), st.sampled_from([7, 1024]))
def test_routing_is_unique_complete_and_by_host(many: list[list[int]], hosts: int, n_shards: int) -> None:
    host_of = np.array(deal_shards(n_shards, hosts))
    router = Router(host_of)
    results = [(np.array(ids, np.uint64), router.route(np.array(ids, np.uint64))) for ids in many]
    for ids, routed in results:
        np.testing.assert_array_equal(routed.ids[routed.inverse], ids)
        assert len(np.unique(routed.ids)) == len(routed.ids) == len(set(ids.tolist()))
        for h in range(hosts):
            assert (host_of[shards_of(routed.of(h), n_shards)] == h).all()
        assert sum(len(routed.of(h)) for h in range(hosts)) == len(routed)


@settings(deadline=None)
@given(st.lists(batches, min_size=1, max_size=5), st.integers(1, 3))
def test_parts_are_routed_as_one_array(parts: list[list[int]], hosts: int) -> None:
    router = Router(np.array(deal_shards(7, hosts)))
    arrays = [np.array(part, np.uint64) for part in parts]
    whole, apart = router.route(np.concatenate(arrays)), router.route_parts(arrays)
    assert whole.ids.tolist() == apart.ids.tolist()
    assert whole.bounds.tolist() == apart.bounds.tolist()
    assert whole.inverse.tolist() == apart.inverse.tolist()


def test_parts_that_are_not_aligned_or_contiguous_are_read_as_they_are() -> None:
    odd = np.frombuffer(b"?" + np.arange(3, dtype=np.uint64).tobytes(), np.uint64, offset=1)
    routed = Router().route_parts([np.array([7, 2], np.uint64), odd, np.arange(6, dtype=np.uint64)[::3]])
    assert routed.ids[routed.inverse].tolist() == [7, 2, 0, 1, 2, 0, 3]


def test_ids_are_counted() -> None:
    routed = Router().route(np.array([[4, 5], [5, 6]], np.uint64))
    assert routed.ids.tolist() == [4, 5, 6]
    assert routed.inverse.tolist() == [0, 1, 1, 2]
    assert routed.counts().tolist() == [1, 2, 1]


def test_the_reserved_id_is_refused_by_position() -> None:
    with pytest.raises(TableError, match="position 1"):
        Router().route(np.array([1, RESERVED], np.uint64))
    with pytest.raises(TableError, match="position 3"):
        Router().route_parts([np.array([1, 2], np.uint64), np.array([3, RESERVED, 4], np.uint64)])
