"""A Hypothesis state machine drives shards and a plain dict together.

The dict knows rows as lists of numbers, updates them by formulas of its own, and knows nothing of hosts, partitions,
hints, cuts or files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from heterps.protocol import BatchKey, deal_shards, owned_by
from heterps.tables import (
    SGD,
    Accessor,
    CtrAccessor,
    DenseSpec,
    GroupSpec,
    KeyedShard,
    Kind,
    Momentum,
    Router,
    RowGradients,
    Snapshots,
    Sum,
    TableSpec,
    Uniform,
    restore,
    since_of,
    write_part,
)
from heterps.tables.hashing import shards_of
from heterps.tables.specs.initialisers import first_values

SEED, WIDTH, N_SHARDS = 11, 3, 64
ACCESSOR: Accessor = CtrAccessor(embed=2, delete_threshold=0.35, decay_rate=0.5)
GROUP = GroupSpec(
    "g",
    (
        TableSpec("a", 1, Momentum(0.25, momentum=0.5), Uniform(1.0)),
        TableSpec("b", 2, SGD(0.5), Uniform(1.0), accessor=ACCESSOR),
    ),
    n_shards=N_SHARDS,
)
DENSE = DenseSpec("w", (2,), Sum())
ids_strategy = st.lists(st.integers(0, 60), min_size=1, max_size=25, unique=True)


@pytest.fixture(autouse=True)
def threads_and_stamps_even_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heterps.tables.live.owners.WORTH_IT", 1)
    monkeypatch.setattr("heterps.tables.live.row_layout.LONG", 3)


class Model:
    """The oracle: one dict of rows, each with values, a momentum and counters."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, np.ndarray]] = {}
        self.keys: set[BatchKey] = set()
        self.dense = np.zeros(2, np.float32)

    def copy(self) -> Model:
        twin = Model()
        twin.rows = {i: {name: value.copy() for name, value in row.items()} for i, row in self.rows.items()}
        twin.keys, twin.dense = set(self.keys), self.dense.copy()
        return twin

    def create(self, id_: int) -> dict[str, np.ndarray]:
        if id_ not in self.rows:
            one = np.array([id_], np.uint64)
            draws = [first_values(Uniform(1.0), t.dim, seed=SEED, table=t.name, ids=one)[0] for t in GROUP.tables]
            self.rows[id_] = {
                "w": np.concatenate(draws),
                "m": np.zeros(1, np.float32),
                "count": np.zeros(2, np.float32),
            }
        return self.rows[id_]

    def push(self, key: BatchKey, grads: RowGradients, dense: np.ndarray) -> bool:
        if key in self.keys:
            return False
        self.keys.add(key)
        assert grads.show is not None
        assert grads.click is not None
        for id_, g, show, click in zip(grads.ids.tolist(), grads.values, grads.show, grads.click, strict=True):
            if np.isfinite(g).all():
                self._update(self.create(id_), g, show, click)
        self.dense = self.dense + dense
        return True

    @staticmethod
    def _update(row: dict[str, np.ndarray], g: np.ndarray, show: float, click: float) -> None:
        row["m"] = np.float32(0.5) * row["m"] + g[:1]
        row["w"] = row["w"] - np.concatenate([np.float32(0.25) * row["m"], np.float32(0.5) * g[1:]])
        row["count"] = row["count"] + np.array([show, click], np.float32)

    def shrink(self) -> int:
        gone = []
        for id_, row in self.rows.items():
            row["count"] = row["count"] * np.float32(0.5)
            show, click = row["count"]
            if (show - click) * np.float32(0.1) + click < 0.35:
                gone.append(id_)
        for id_ in gone:
            del self.rows[id_]
        return len(gone)


class TableMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model, self.folder = Model(), Path(tempfile.mkdtemp())
        self.cut: tuple[list, Model] | None = None
        self.saved: Model | None = None
        self.unfinished, self.last = Path(), None
        self.readers: dict[str, list[tuple[int | None, dict[int, np.ndarray]]]] = {}
        self.numbers = iter(range(10**6))

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(hosts=st.integers(1, 4), threads=st.integers(1, 3))
    def start(self, hosts: int, threads: int) -> None:
        self._new_hosts(hosts, threads)

    def _new_hosts(self, hosts: int, threads: int) -> None:
        host_of = deal_shards(N_SHARDS, hosts)
        owned = [owned_by(host_of, h) for h in range(hosts)]
        self.shards = [
            KeyedShard([GROUP], [DENSE] if h == 0 else [], seed=SEED, owned=o, threads=threads)
            for h, o in enumerate(owned)
        ]
        self.router, self.host_of = Router(host_of), np.array(host_of)

    @rule(name=st.sampled_from("xy"), lost=st.booleans(), meanwhile=st.none() | st.integers(0, 8))
    def read_changes(self, name: str, lost: bool, meanwhile: int | None) -> None:
        """A reader follows what it is told, unless the answer gets lost; it then has what is in the tables.

        A push may come when its rows have been copied and before it has the answer: that is for the next one.
        """
        copies = self.readers.setdefault(name, [])
        copies += [(None, {})] * (len(self.shards) - len(copies))
        rows: dict[int, np.ndarray] = {}
        for h, shard in enumerate(self.shards):
            mark, had = copies[h]
            with self._pushing_after_the_copy(shard, None if h else meanwhile):
                found = shard.groups["g"].changed(name, mark)
            now = {} if found.everything else {i: v for i, v in had.items() if i not in set(found.deleted.tolist())}
            counted = np.stack([found.rows["show"], found.rows["click"]], 1)
            now |= zip(found.ids.tolist(), np.concatenate([found.rows["a"], found.rows["b"], counted], 1), strict=True)
            rows |= now
            if not lost:
                copies[h] = found.mark, now
        if meanwhile is None:
            assert set(rows) == set(self.model.rows)
            for id_, row in self.model.rows.items():
                np.testing.assert_array_equal(rows[id_], np.concatenate([row["w"], row["count"]]))

    @contextmanager
    def _pushing_after_the_copy(self, shard: KeyedShard, key: int | None) -> Iterator[None]:
        readers = shard.groups["g"].readers
        copied = readers._copied

        def and_then(listed: list) -> dict[str, np.ndarray]:
            found = {name: column.copy() for name, column in copied(listed).items()}
            if key is not None:
                self.push(list(range(0, 60, 7)), key, key, 1, False)
            return found

        readers._copied = and_then  # type: ignore[method-assign]
        yield
        del readers._copied

    @rule(ids=ids_strategy, train=st.booleans())
    def pull(self, ids: list[int], train: bool) -> None:
        routed = self.router.route(np.array(ids * 2, np.uint64))
        parts = [shard.pull("g", routed.of(h), train=train).values for h, shard in enumerate(self.shards)]
        got = np.concatenate(parts)[routed.inverse]
        zeros = np.zeros(WIDTH, np.float32)
        for id_, values in zip(ids * 2, got, strict=True):
            row = self.model.create(id_) if train else self.model.rows.get(id_)
            np.testing.assert_array_equal(values, zeros if row is None else row["w"])

    @rule(
        ids=ids_strategy, key=st.integers(0, 8), seed=st.integers(0, 10**6), nan=st.integers(0, 4), hint=st.booleans()
    )
    def push(self, ids: list[int], key: int, seed: int, nan: int, hint: bool) -> None:
        """Keys come in any order and again; hints may be those of another host's rows."""
        rng = np.random.default_rng(seed)
        values = rng.integers(-4, 5, (len(ids), WIDTH)).astype(np.float32) / 4
        if nan == 0:
            values[0, rng.integers(WIDTH)] = [np.nan, np.inf, -np.inf][rng.integers(3)]
        show = rng.integers(1, 9, len(ids)).astype(np.float32)
        hints = rng.integers(0, 40, len(ids)).astype(np.uint32) if hint else None
        grads = RowGradients(np.array(ids, np.uint64), values, hints, show, np.minimum(show, rng.integers(0, 2)))
        dense, name = np.full(2, seed % 7, np.float32), BatchKey(0, key % 3, key // 3)
        fresh = self.model.push(name, grads, dense)
        home = self.host_of[shards_of(grads.ids, N_SHARDS)]
        for h, shard in enumerate(self.shards):
            at = np.flatnonzero(home == h)
            applied = shard.push(name, {"g": grads.take(at)}, dense if h == 0 else None)
            assert applied.duplicate == (not fresh)

    @rule()
    def shrink(self) -> None:
        assert sum(shard.shrink() for shard in self.shards) == self.model.shrink()

    @rule(ids=ids_strategy)
    def evict(self, ids: list[int]) -> None:
        home = self.host_of[shards_of(np.array(ids, np.uint64), N_SHARDS)]
        for h, shard in enumerate(self.shards):
            shard.groups["g"].delete(np.array(ids, np.uint64)[home == h])
        for id_ in ids:
            self.model.rows.pop(id_, None)

    @precondition(lambda self: self.cut is None)
    @rule(follow=st.integers(0, 3), forgetful=st.booleans())
    def begin_cut(self, follow: int, forgetful: bool) -> None:
        """With all rows, or with those that changed since the last snapshot (all where a host does not know)."""
        if forgetful:
            self.shards[0].forget("cuts")
        folder = self.unfinished = Snapshots(self.folder).begin(self.last if follow else None)
        since = since_of(folder)
        cuts = [shard.cut("cuts", moment=folder.name, since=since) for shard in self.shards]
        self.cut = cuts, self.model.copy()

    @precondition(lambda self: self.cut is not None)
    @rule()
    def fail_cut(self) -> None:
        assert self.cut is not None
        for cut in self.cut[0]:
            cut.end()
        Snapshots(self.folder).abandon(self.unfinished)
        self.cut = None

    @precondition(lambda self: self.cut is not None)
    @rule()
    def write_cut(self) -> None:
        assert self.cut is not None
        cuts, self.saved = self.cut
        snapshots, folder = Snapshots(self.folder), self.unfinished
        kind: Kind = "changes" if cuts[0].partial else "checkpoint"
        parts = [write_part(cut, folder, kind=kind, host=h) for h, cut in enumerate(cuts)]
        for cut in cuts:
            cut.end()
        about = {"seed": SEED, "groups": [GROUP], "dense": [DENSE], "kind": kind}
        self.last = snapshots.commit(folder, parts, ledger=cuts[0].window, **about)
        self.cut = None
        self._check_saved()

    def _check_saved(self) -> None:
        assert self.saved is not None
        shard = KeyedShard([GROUP], [DENSE], seed=SEED)
        restore(shard, self.folder)
        rows = shard.groups["g"].changed("check").rows
        assert sorted(rows["id"].tolist()) == sorted(self.saved.rows)
        values = np.concatenate([rows["a"], rows["b"], rows["a.slots"]], 1)
        for id_, row in zip(rows["id"].tolist(), values, strict=True):
            wanted = self.saved.rows[id_]
            np.testing.assert_array_equal(row, np.concatenate([wanted["w"], wanted["m"]]))

    @precondition(lambda self: self.saved is not None and self.cut is None)
    @rule(hosts=st.integers(1, 4), threads=st.integers(1, 3))
    def restore_on(self, hosts: int, threads: int) -> None:
        assert self.saved is not None
        self.model = self.saved.copy()
        self._new_hosts(hosts, threads)
        for shard in self.shards:
            manifest = restore(shard, self.folder)
            shard.remember("cuts", manifest.moment)
        self.readers.clear()

    @invariant()
    def same_rows(self) -> None:
        if not hasattr(self, "shards"):
            return
        assert sum(len(shard.groups["g"]) for shard in self.shards) == len(self.model.rows)
        assert all(set(shard.window) == self.model.keys for shard in self.shards)
        np.testing.assert_array_equal(self.shards[0].pull_dense(), self.model.dense)
        self.pull(list(range(61)), False)


TestTables = TableMachine.TestCase
TestTables.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
