"""Rows of a worker's own: GeoSGD's formulas, against the same in plain dictionaries."""

import numpy as np
import pytest

from heterps.tables import SGD, GroupSpec, LocalRows, Momentum, RowGradients, Rule, Shard, TableSpec

IDS, DIM, LANES = 40, 3, 2
RULES = [SGD(lr=0.1), Momentum(lr=0.1, momentum=0.5)]


def group(rule: Rule = RULES[0]) -> GroupSpec:
    return GroupSpec("g", (TableSpec("a", DIM - 1, rule), TableSpec("b", 1, rule)))


class Trainer:
    """GeoSGD as its authors write it: ``latest`` and ``old`` by id."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.latest: dict[int, np.ndarray] = {}
        self.old: dict[int, np.ndarray] = {}
        self.speed: dict[int, np.ndarray] = {}

    def learn(self, id_: int, gradient: np.ndarray) -> None:
        speed = gradient
        if isinstance(self.rule, Momentum):
            speed = self.speed[id_] = self.rule.momentum * self.speed.get(id_, 0) + gradient
        self.latest[id_] = self.latest[id_] - 0.1 * speed

    def settle(self, id_: int) -> np.ndarray:
        delta = (self.latest[id_] - self.old[id_]) / LANES
        self.old[id_] = self.old[id_] + delta
        return delta

    def hear(self, id_: int, server: np.ndarray) -> None:
        self.latest[id_] = self.latest[id_] + (server - self.old[id_])
        self.old[id_] = server


def values_of(rows: LocalRows, ids: np.ndarray) -> np.ndarray:
    out = np.empty((len(ids), DIM), np.float32)
    rows.read(ids, out)
    return out


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_two_workers_follow_the_formulas(rule: Rule) -> None:
    rng = np.random.default_rng(3)
    server = {i: rng.normal(size=DIM) for i in range(IDS)}
    workers = [(LocalRows(group(rule), 0), Trainer(rule)) for _ in range(2)]
    for _ in range(6):
        for rows, plain in workers:
            ids = np.sort(rng.choice(IDS, 12, replace=False)).astype(np.uint64)
            asked = ids[rows.lacking(ids)]
            rows.take(asked, np.array([server[int(i)] for i in asked], np.float32).reshape(-1, DIM))
            for i in map(int, asked):
                plain.latest[i] = plain.old[i] = server[i]
            for _ in range(3):
                gradient = rng.normal(size=(len(ids), DIM)).astype(np.float32)
                at = rows.read(ids, np.empty((len(ids), DIM), np.float32))
                rows.learn(ids, gradient, at, 0, None, None)
                for i, one in zip(map(int, ids), gradient, strict=True):
                    plain.learn(i, one)
            owed = rows.settle(LANES)
            assert owed.ids.tolist() == ids.tolist() or sorted(owed.ids.tolist()) == ids.tolist()
            for i, change in zip(map(int, owed.ids), owed.values, strict=True):
                np.testing.assert_allclose(change, plain.settle(i), atol=2e-6)
                server[i] = server[i] + change
            everything = np.arange(IDS, dtype=np.uint64)
            rows.hear(everything, np.array([server[int(i)] for i in everything], np.float32))
            for i in plain.latest:
                plain.hear(i, server[i])
            known = np.array(sorted(plain.latest), np.uint64)
            np.testing.assert_allclose(values_of(rows, known), [plain.latest[int(i)] for i in known], atol=1e-5)


def test_a_new_row_begins_as_on_the_host() -> None:
    ids = np.arange(20, dtype=np.uint64)
    there = Shard([group()], seed=7).pull("g", ids).values
    rows = LocalRows(group(), 7)
    np.testing.assert_array_equal(values_of(rows, ids), there)
    assert rows.lacking(ids).all(), "the host may know better: it is asked before they are used again"


def test_what_is_heard_changes_nothing_that_was_learned() -> None:
    ids, rows = np.arange(4, dtype=np.uint64), LocalRows(group(), 0)
    rows.take(ids, np.ones((4, DIM), np.float32))
    rows.learn(ids, np.ones((4, DIM), np.float32), rows.read(ids, np.empty((4, DIM), np.float32)), 0, None, None)
    rows.hear(ids, np.full((4, DIM), 5, np.float32))
    rows.take(ids, np.full((4, DIM), 3, np.float32))
    np.testing.assert_allclose(rows.settle(1).values, np.full((4, DIM), -0.1), atol=1e-6)
    assert len(rows.settle(1).ids) == 0, "settled once"


def test_the_least_recent_rows_go_but_none_that_a_batch_waits_for() -> None:
    rows, value = LocalRows(group(), 0, most=5), np.ones((1, DIM), np.float32)
    for i in range(8):
        one = np.array([i], np.uint64)
        rows.take(one, value)
        if i == 5:
            assert not rows.lacking(np.array([0], np.uint64)).any()
        rows.settle(1)
    assert sorted(rows.ids.tolist()) == [0, 4, 5, 6, 7]
    rows.take(np.arange(10, 20, dtype=np.uint64), np.ones((10, DIM), np.float32))
    rows.settle(1)
    assert sorted(rows.ids.tolist()) == list(range(10, 20)), "all were taken since: one settlement may hold more"


def test_rows_that_hosts_deleted_go_with_what_was_learned() -> None:
    ids, rows = np.arange(4, dtype=np.uint64), LocalRows(group(), 0)
    rows.take(ids, np.ones((4, DIM), np.float32))
    rows.learn(ids, np.ones((4, DIM), np.float32), rows.read(ids, np.empty((4, DIM), np.float32)), 0, None, None)
    rows.drop(ids[:2])
    assert sorted(rows.settle(1).ids.tolist()) == [2, 3]
    assert rows.lacking(ids).tolist() == [True, True, False, False]


def test_rows_in_doubt_are_asked_for_and_keep_what_was_learned() -> None:
    ids, rows = np.arange(3, dtype=np.uint64), LocalRows(group(), 0)
    rows.take(ids, np.zeros((3, DIM), np.float32))
    rows.learn(ids, np.ones((3, DIM), np.float32), rows.read(ids, np.empty((3, DIM), np.float32)), 0, None, None)
    rows.doubt(rows.ids != 1)
    assert rows.lacking(ids).tolist() == [True, False, True]
    rows.take(ids[[0, 2]], np.ones((2, DIM), np.float32))
    assert not rows.lacking(ids).any()
    np.testing.assert_allclose(values_of(rows, ids)[:, 0], [0.9, -0.1, 0.9], atol=1e-6)


def test_rows_that_came_late_stay_in_doubt() -> None:
    ids, rows = np.arange(2, dtype=np.uint64), LocalRows(group(), 0)
    rows.take(ids[:1], np.ones((1, DIM), np.float32))
    rows.hear(ids[:1], np.full((1, DIM), 2, np.float32))
    rows.take(ids, np.zeros((2, DIM), np.float32), doubted=True)
    assert rows.lacking(ids).tolist() == [False, True]
    assert values_of(rows, ids)[:, 0].tolist() == [2, 0]


def test_shows_and_clicks_are_added_up_until_they_are_settled() -> None:
    ids, rows = np.arange(2, dtype=np.uint64), LocalRows(group(), 0)
    rows.take(ids, np.zeros((2, DIM), np.float32))
    for _ in range(3):
        at = rows.read(ids, np.empty((2, DIM), np.float32))
        rows.learn(
            ids, np.zeros((2, DIM), np.float32), at, 0, np.array([1, 2], np.float32), np.array([0, 1], np.float32)
        )
    owed = rows.settle(1)
    assert dict(zip(owed.ids.tolist(), zip(owed.show.tolist(), owed.click.tolist(), strict=True), strict=True)) == {
        0: (3, 0),
        1: (6, 3),
    }
    assert len(rows.settle(1).show) == 0


def test_a_gradient_that_is_no_number_leaves_its_row_alone() -> None:
    ids, rows = np.arange(2, dtype=np.uint64), LocalRows(group(), 0)
    rows.take(ids, np.zeros((2, DIM), np.float32))
    gradient = np.array([[np.nan] * DIM, [1.0] * DIM], np.float32)
    assert rows.learn(ids, gradient, rows.read(ids, np.empty((2, DIM), np.float32)), 0, None, None) == 1
    assert values_of(rows, ids)[0].tolist() == [0, 0, 0]


def test_hosts_add_whatever_the_rule_and_keep_its_slots() -> None:
    ids = np.arange(3, dtype=np.uint64)
    shard = Shard([group(RULES[1])], seed=1, adds=True)
    before = shard.pull("g", ids).values.copy()
    shard.apply(("key",), {"g": RowGradients(ids, np.full((3, DIM), 0.25, np.float32))})  # type: ignore[arg-type]
    np.testing.assert_allclose(shard.pull("g", ids).values, before + 0.25, atol=1e-7)
    rows = shard.group("g").changed("reader").rows
    assert not rows["a.slots"].any()
