"""Steps that a worker takes itself on rows it keeps, until hosts have taken them."""

import numpy as np
import pytest

from heterps.protocol.words.keys import BatchKey
from heterps.tables import SGD, CachedRows, CountEntry, ElementAdaGrad, GroupSpec, RowGradients, Shard, TableSpec
from heterps.tables.live.own_steps import OwnSteps, can_step

GROUP = GroupSpec("g", (TableSpec("a", 2, ElementAdaGrad(lr=0.5)),), 8)
IDS = np.array([3, 9], np.uint64)


def gradient(*numbers: float) -> np.ndarray:
    return np.repeat(np.array(numbers, np.float32)[:, None], 2, axis=1)


def shown(rows: CachedRows, where: np.ndarray) -> np.ndarray:
    out = np.empty((len(where), 2), np.float32)
    rows.read(where, out)
    return out


def test_a_row_that_is_met_again_gets_its_slots_and_takes_the_steps_of_its_host() -> None:
    host, rows = Shard([GROUP]), CachedRows(GROUP, 10)
    host.apply(BatchKey(0, 0, 0), {"g": RowGradients(IDS, gradient(2, 3))})
    for batch in range(2):
        where, _ = rows.need(IDS, batch, needed=batch, now=batch)
        slots = host.pull_slots("g", IDS) if rows.wants_slots(where).all() else None
        assert (slots is not None) is (batch == 1)
        rows.take(where, host.pull("g", IDS).values, batch, 0, slots)
        if batch == 0:
            rows.learn(IDS, where, gradient(1, 1), unit=0, step=0)
            np.testing.assert_array_equal(shown(rows, where), host.pull("g", IDS).values)
    assert not rows.wants_slots(where).any(), "once"
    rows.learn(IDS, where, gradient(1, -1), unit=2, step=0)
    host.apply(BatchKey(0, 0, 1), {"g": RowGradients(IDS, gradient(1, -1))})
    np.testing.assert_array_equal(shown(rows, where), host.pull("g", IDS).values)


def test_slots_of_an_id_without_a_row_are_as_they_start() -> None:
    group = GroupSpec("g", (TableSpec("a", 2, ElementAdaGrad(lr=0.5, initial=0.25)),), 8)
    host = Shard([group], threads=2)
    host.apply(BatchKey(0, 0, 0), {"g": RowGradients(IDS[:1], gradient(2))})
    assert host.pull_slots("g", IDS).tolist() == [[4.25, 4.25], [0.25, 0.25]]


def test_steps_stay_on_top_until_a_host_has_them() -> None:
    rows = CachedRows(GroupSpec("g", (TableSpec("a", 2, SGD(lr=1.0)),), 8), 10)
    where, _ = rows.need(IDS, 0, needed=0, now=0)
    rows.take(where, gradient(10, 20), 0, 0)
    for unit in (0, 2):
        rows.learn(IDS, where, gradient(1, 2), unit, 0)
        rows.learn(IDS[1:], where[1:], gradient(100), unit, 0)
    assert shown(rows, where)[:, 0].tolist() == [8, -184]
    rows._heard[:] = -1
    rows.take(where, gradient(10, 20), 0, 0)
    assert shown(rows, where)[:, 0].tolist() == [8, -184], "it has neither"
    rows.take(where, gradient(9.5, 0), 2, 0)
    assert shown(rows, where)[:, 0].tolist() == [8.5, -102], "the second is not there yet"
    rows.learn(IDS, where, gradient(1, 1), 4, 0)
    rows.take(where, gradient(7, -0.0), 6, 0)
    assert shown(rows, where)[:, 0].tolist() == [7, 0]
    assert np.signbit(shown(rows, where)[1]).all(), "as the host has it, bit by bit"


def test_a_batch_that_a_host_had_from_an_earlier_attempt_is_no_step() -> None:
    rows = CachedRows(GroupSpec("g", (TableSpec("a", 2, SGD(lr=1.0)),), 8), 10)
    where, _ = rows.need(IDS, 0, needed=0, now=0)
    rows.take(where, gradient(10, 20), 2, 0)
    rows.learn(IDS, where, gradient(1, 1), unit=0, step=0)
    assert shown(rows, where)[:, 0].tolist() == [10, 20]
    rows.learn(IDS, where, gradient(1, 1), unit=2, step=0)
    assert shown(rows, where)[:, 0].tolist() == [9, 19]


def test_a_row_that_went_takes_its_steps_along() -> None:
    own = OwnSteps(2)
    own.grow(4)
    values, row = np.zeros((4, 2), np.float32), np.array([1], np.uint32)
    own.note(row, gradient(5), unit=0)
    own.forget(row)
    own.put(values, row, 0)
    assert not values.any()


@pytest.mark.parametrize(
    "spec",
    [
        GroupSpec("g", (TableSpec("a", 2, entry=CountEntry(3)),), 8),
        GroupSpec("g", (TableSpec("a", 2),), 8, create_on="push"),
    ],
)
def test_where_hosts_decide_more_than_the_rule_nothing_is_foretold(spec: GroupSpec) -> None:
    assert can_step(GROUP)
    assert not can_step(spec)
    rows = CachedRows(spec, 10)
    where, _ = rows.need(IDS, 0, needed=0, now=0)
    rows.take(where, gradient(1, 2), 0, 0)
    rows.learn(IDS, where, gradient(1, 1), 0, 0)
    assert shown(rows, where)[:, 0].tolist() == [1, 2]
