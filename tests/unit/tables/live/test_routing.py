from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.errors import TableError
from heterps.tables import Router, gather_rows, spread_shards, sum_rows
from heterps.tables.hashing import RESERVED, shards_of

batches = st.lists(st.integers(0, 40) | st.integers(0, RESERVED - 1), max_size=300)


@settings(deadline=None)
@given(st.lists(batches, min_size=1, max_size=4), st.integers(1, 5), st.sampled_from([7, 1024]))
def test_routing_is_unique_complete_and_by_host(many: list[list[int]], hosts: int, n_shards: int) -> None:
    host_of = spread_shards(n_shards, hosts)
    router = Router(host_of, depth=len(many))
    results = [(np.array(ids, np.uint64), router.route(np.array(ids, np.uint64))) for ids in many]
    for ids, routed in results:
        np.testing.assert_array_equal(routed.ids[routed.inverse], ids)
        assert len(np.unique(routed.ids)) == len(routed.ids) == len(set(ids.tolist()))
        for h in range(hosts):
            assert (host_of[shards_of(routed.of(h), n_shards)] == h).all()
        assert sum(len(routed.of(h)) for h in range(hosts)) == len(routed)


def test_padding_is_not_asked_for() -> None:
    routed = Router(padding_id=0).route(np.array([[0, 5], [5, 0]], np.uint64))
    assert routed.ids.tolist() == [5]
    assert routed.inverse.tolist() == [-1, 0, 0, -1]
    assert routed.counts().tolist() == [2]


def test_the_reserved_id_is_refused_by_position() -> None:
    with pytest.raises(TableError, match="position 1"):
        Router().route(np.array([1, RESERVED], np.uint64))


@settings(deadline=None)
@given(batches)
def test_gather_and_sum_follow_the_inverse(ids: list[int]) -> None:
    routed = Router(padding_id=3).route(np.array(ids, np.uint64))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(routed), 3)).astype(np.float32)
    out = np.empty((len(ids), 3), np.float32)
    gather_rows(rows, routed.inverse, out)
    seen = routed.inverse >= 0
    np.testing.assert_array_equal(out[seen], rows[routed.inverse[seen]])
    assert not out[~seen].any()
    total, expected = np.empty_like(rows), np.zeros_like(rows)
    sum_rows(out, routed.inverse, total)
    np.add.at(expected, routed.inverse[seen], out[seen])
    np.testing.assert_array_equal(total, expected)
