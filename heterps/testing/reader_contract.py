"""What every reader must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest

from heterps.data import BadRows, Dataset, Split
from heterps.errors import DataError
from heterps.ragged import Ragged

__all__ = ["ReaderContract", "rows_of"]

SCOPES = ["none", "local", "global"]
Row = tuple[Any, ...]


class ReaderContract(ABC):
    """Derive, and say how to make data that is known.

    The data should have at least a hundred rows, no two alike, and at least three Splits (set ``split_cost``).
    """

    @abstractmethod
    def dataset(self, folder: Path) -> Dataset:
        """Write files into an empty folder if need be, and return them as a Dataset that is not shuffled."""

    @abstractmethod
    def expected(self) -> Sequence[Row]:
        """Return the rows in order: a tuple of the values of all columns, in the order of the schema, as lists."""

    def damaged(self, folder: Path) -> tuple[Dataset, int] | None:
        """Return a Dataset of one Split with bad rows and their number; None where rows cannot be bad."""
        return None

    def test_every_row_comes_once_and_in_order(self, tmp_path: Path) -> None:
        data = self.dataset(tmp_path)
        assert len(data.splits()) > 2
        for batch_size in (1, 7, 1 << 12):
            assert rows_of(data, batch_size=batch_size) == list(self.expected())

    def test_batches_are_full_but_the_last_and_numbered_from_zero(self, tmp_path: Path) -> None:
        data = self.dataset(tmp_path)
        for split in data.splits(pass_=2):
            batches = [(batch.key, batch.size) for batch in data.read(split, batch_size=7)]
            assert [(key.pass_, key.split, key.n) for key, _ in batches] == [
                (2, split.index, n) for n in range(len(batches))
            ]
            assert all(size == 7 for _, size in batches[:-1])
            assert 0 < batches[-1][1] <= 7

    def test_columns_are_those_of_the_schema(self, tmp_path: Path) -> None:
        data = self.dataset(tmp_path)
        batch = next(iter(data.read(data.splits()[0], batch_size=7)))
        assert tuple(batch.columns) == data.schema.names
        for field in data.schema:
            column = batch[field.name]
            if isinstance(column, Ragged):
                assert (field.kind, len(column)) == ("ragged", batch.size)
            else:
                assert column.shape == (batch.size, *field.shape)
                assert column.dtype == (np.uint64 if field.kind == "sparse" else np.float32)

    def test_splits_are_values_that_travel(self, tmp_path: Path) -> None:
        data = self.dataset(tmp_path)
        twin = cloudpickle.loads(cloudpickle.dumps(data))
        assert twin.splits(1, 2) == data.splits(1, 2)
        assert [split.index for split in data.splits()] == list(range(len(data.splits())))
        assert all(Split.from_json(split.to_json()) == split for split in data.splits())
        assert rows_of(twin) == list(self.expected())

    @pytest.mark.parametrize("scope", SCOPES)
    def test_a_read_from_any_batch_continues_the_whole_read(self, tmp_path: Path, scope: Any) -> None:
        data = self.dataset(tmp_path).shuffle(scope, window=20)
        for split in data.splits(pass_=1, seed=3)[-2:]:
            whole = _keyed(data, split, 0)
            for start in (1, 2, len(whole), len(whole) + 3):
                assert _keyed(data, split, start) == whole[start:]

    @pytest.mark.parametrize("scope", SCOPES[1:])
    def test_shuffles_keep_every_row_once_and_depend_on_seed_and_pass(self, tmp_path: Path, scope: Any) -> None:
        data = self.dataset(tmp_path).shuffle(scope, window=50)
        orders = [rows_of(data, pass_=p, seed=s) for p, s in ((0, 0), (1, 0), (0, 1), (0, 0))]
        assert all(sorted(order, key=repr) == sorted(self.expected(), key=repr) for order in orders)
        assert orders[0] == orders[3]
        assert orders[0] != orders[1] != orders[2] != orders[0]

    def test_a_ring_keeps_earlier_batches_valid(self, tmp_path: Path) -> None:
        data = self.dataset(tmp_path)
        batches = [batch for split in data.splits()[:1] for batch in data.read(split, batch_size=7, ring=1000)]
        kept = [row for batch in batches for row in _rows(data, batch)]
        assert kept == list(self.expected())[: len(kept)]

    def test_rows_kept_in_memory_are_the_same(self, tmp_path: Path) -> None:
        data = self.dataset(tmp_path).persist()
        assert rows_of(data) == rows_of(data) == list(self.expected())

    def test_leaving_a_read_early_gives_files_and_processes_back(self, tmp_path: Path) -> None:
        data, own = self.dataset(tmp_path), psutil.Process()
        rows_of(data)  # what is opened once and for all is open now
        before = (own.num_fds(), own.children())
        for _ in range(3):
            batches = data.read(data.splits()[0], batch_size=7)
            next(iter(batches))
            batches.close()  # type: ignore[attr-defined]
        assert (own.num_fds(), own.children()) == before

    def test_bad_rows_are_counted_or_stop_the_read(self, tmp_path: Path) -> None:
        found = self.damaged(tmp_path)
        if found is None:
            pytest.skip("rows of this reader cannot be bad")
        data, count = found
        bad = BadRows()
        for _ in data.read(data.splits()[0], batch_size=7, bad=bad):
            pass
        assert bad.count == count
        assert bad.first[0].source
        with pytest.raises(DataError, match="bad rows"):
            rows_of(replace(data.on_bad("error")))


def rows_of(data: Dataset, batch_size: int = 7, pass_: int = 0, seed: int = 0) -> list[Row]:
    """Return all rows of a pass in reading order, each a tuple of the values of its columns."""
    return [
        row
        for split in data.splits(pass_, seed)
        for batch in data.read(split, batch_size=batch_size, seed=seed)
        for row in _rows(data, batch)
    ]


def _rows(data: Dataset, batch: Any) -> list[Row]:
    return list(zip(*(batch[name].tolist() for name in data.schema.names), strict=True))


def _keyed(data: Dataset, split: Split, start: int) -> list[tuple[Any, list[Row]]]:
    return [(b.key, _rows(data, b)) for b in data.read(split, batch_size=9, seed=3, start=start)]
