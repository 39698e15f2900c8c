"""What every accessor must do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from heterps.parquet import read_parquet
from heterps.protocol import BatchKey
from heterps.tables import ACCESSORS, SGD, Accessor, GroupSpec, KeyedShard, RowGradients, TableSpec, Zeros, save_shard
from heterps.tables.specs.accessor import Counters

__all__ = ["AccessorContract"]

ROWS = 400
DECISIONS = ("drop", "in_base", "in_delta")
Floats = npt.NDArray[np.float32]


class AccessorContract:
    """Derive, and give accessors whose decisions differ from row to row.

    Attributes
    ----------
    accessors
        Several values: rows are drawn with up to 20 shows, as many clicks at most, and 40 days unseen.
    """

    accessors: ClassVar[Sequence[Accessor]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each accessor."""
        if "accessor" in metafunc.fixturenames:
            names = [f"{type(each).__name__}-{i}" for i, each in enumerate(self.accessors)]
            metafunc.parametrize("accessor", self.accessors, ids=names)

    def test_it_survives_json(self, accessor: Accessor) -> None:
        assert ACCESSORS.from_json(accessor.to_json()) == accessor

    @pytest.mark.parametrize("decision", DECISIONS)
    def test_a_decision_is_one_mask_over_rows(self, accessor: Accessor, decision: str) -> None:
        found = getattr(accessor, decision)(drawn())
        assert (type(found), found.dtype, found.shape) == (np.ndarray, np.bool_, (ROWS,))
        assert len(getattr(accessor, decision)(Counters(*(each[:0] for each in drawn())))) == 0

    @pytest.mark.parametrize("decision", [*DECISIONS, "decay"])
    def test_what_happens_to_a_row_does_not_depend_on_others(self, accessor: Accessor, decision: str) -> None:
        """Rows lie in shards, and shards on hosts, in any order."""
        decide, c = getattr(accessor, decision), drawn()
        every, order = decide(c), np.random.default_rng(1).permutation(ROWS)
        for some in (order[:50], *np.split(order[:20], 20)):
            found = decide(Counters(*(each[some] for each in c)))
            for one, other in zip(_arrays(found), _arrays(every), strict=True):
                np.testing.assert_array_equal(one, other[some])

    @pytest.mark.parametrize("decision", [*DECISIONS, "decay"])
    def test_counters_are_left_as_they_are(self, accessor: Accessor, decision: str) -> None:
        c, twin = drawn(), drawn()
        getattr(accessor, decision)(c)
        for one, other in zip(c, twin, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_ageing_leaves_usable_counters_and_never_adds(self, accessor: Accessor) -> None:
        c = drawn()
        aged = accessor.decay(c)
        for name, before, after in zip(Counters._fields, c, aged, strict=True):
            assert after.dtype == np.float32, name
            assert np.isfinite(after).all(), name
            assert (after >= 0).all(), name
            assert name == "unseen_days" or (after <= before).all(), f"{name} has grown with age"
        np.testing.assert_array_equal(aged.live, c.live)

    def test_shrink_deletes_what_it_says(self, accessor: Accessor, tmp_path: Path) -> None:
        shard, ids = self._shard(accessor)
        gone = accessor.drop(accessor.decay(self._counters(shard, tmp_path)))
        assert shard.shrink() == gone.sum()
        left = shard.pull("g", ids, train=False).values[:, 0] != 0
        np.testing.assert_array_equal(left, ~gone)

    @pytest.mark.parametrize("kind", ["base", "delta"])
    def test_a_save_holds_what_it_says(self, accessor: Accessor, kind: Any, tmp_path: Path) -> None:
        shard, ids = self._shard(accessor)
        c = self._counters(shard, tmp_path / "all")
        held = accessor.in_base(c) if kind == "base" else accessor.in_delta(c)
        assert sorted(_saved(shard, tmp_path / kind, kind)) == sorted(ids[held].tolist())

    def _shard(self, accessor: Accessor) -> tuple[KeyedShard, npt.NDArray[np.uint64]]:
        """Return a shard whose rows have been shown and clicked; half of them were not seen for 35 days."""
        shard = KeyedShard([GroupSpec("g", (TableSpec("t", accessor.embed, SGD(1.0), Zeros(), accessor=accessor),))])
        ids, c = np.arange(1, ROWS + 1, dtype=np.uint64), drawn()
        ones = np.ones((ROWS, accessor.embed), np.float32)
        shard.push(BatchKey(0, 0, 0), {"g": RowGradients(ids, ones, show=c.show, click=c.click)})
        for _ in range(35):
            shard.after_save("base")
        some = slice(0, ROWS // 2)
        shard.push(
            BatchKey(0, 0, 1), {"g": RowGradients(ids[some], ones[some], show=c.show[some], click=c.click[some])}
        )
        return shard, ids

    def _counters(self, shard: KeyedShard, folder: Path) -> Counters:
        """Return the counters of all rows as a checkpoint has them, in the order of ids."""
        rows = _saved(shard, folder, "checkpoint")
        return Counters(
            *(np.array([rows[each][name] for each in sorted(rows)], np.float32) for name in Counters._fields)
        )


def _saved(shard: KeyedShard, folder: Path, kind: Any) -> dict[int, dict[str, Any]]:
    tables = [read_parquet(path) for path in save_shard(shard, folder, kind=kind).glob("rows-*.parquet")]
    return {row["id"]: row for table in tables for row in table.to_pylist()}


def drawn() -> Counters:
    """Return counters of rows, the same each time: some new, some old, some never clicked."""
    rng = np.random.default_rng(0)
    show = rng.integers(1, 21, ROWS)
    columns = (show, rng.integers(0, show + 1), rng.random(ROWS), rng.integers(0, 41, ROWS), rng.integers(0, 2, ROWS))
    return Counters(*(column.astype(np.float32) for column in columns))


def _arrays(found: Any) -> tuple[Floats, ...]:
    return tuple(found) if isinstance(found, Counters) else (found,)
