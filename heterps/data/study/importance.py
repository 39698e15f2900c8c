"""Feature importance: how much worse the model gets when one feature's values are dealt to other rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heterps.data.core.bad import BadRows
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.over import Over
from heterps.data.core.permutation import permutation, seed_key
from heterps.data.core.split import Piece
from heterps.errors import DataError
from heterps.ragged import Ragged

__all__ = ["Importance", "SlotsShuffled", "feature_importance", "slots_shuffle"]


@dataclass(frozen=True, kw_only=True)
class SlotsShuffled(Over):
    """Another dataset with the values of some features permuted among rows (within windows of ``window`` rows)."""

    slots: tuple[tuple[str, int], ...] = ()
    slot_seed: int = 0
    window: int = 1 << 16

    def marks(self) -> dict[str, Any]:
        """Return those of the dataset below, and which features are permuted."""
        return {"of": self.of.fingerprint(), "slots": [list(slot) for slot in self.slots]}

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Read with permuted features."""
        return _Permuted(self, replace(self.of, labels=self.labels).open(pieces, bad))


class _Permuted(Source):
    def __init__(self, data: SlotsShuffled, below: Source) -> None:
        self.data, self.below = data, below
        self.pool = RowBuffers(data.schema, data.window)
        self.at = self.size = self.windows = 0

    def fill(self, rows: RowBuffers, begin: int, end: int) -> int:
        row = begin
        while row < end and self._ready():
            take = min(end - row, self.size - self.at)
            rows.put_columns(row, self.pool.columns(self.size), self.at, self.at + take)
            self.at += take
            row += take
        return row - begin

    def _ready(self) -> bool:
        if self.at < self.size:
            return True
        self.at, self.size = 0, self.below.fill(self.pool, 0, self.pool.capacity)
        order = permutation(self.size, seed_key(self.data.slot_seed, self.windows))
        self.windows += 1
        for name, element in self.data.slots:
            if name in self.pool.lists:
                self._deal_lists(name, order)
            else:
                column = self.pool[name][: self.size].reshape(self.size, self.data.schema[name].width)
                column[:, element] = column[order, element]
        return self.size > 0

    def _deal_lists(self, name: str, order: object) -> None:
        lists = self.pool.columns(self.size)[name]
        assert isinstance(lists, Ragged)
        rows = lists.tolist()
        dealt = Ragged.from_lists([rows[i] for i in order])  # type: ignore[attr-defined]
        self.pool.put_lists(name, 0, dealt)

    def close(self) -> None:
        self.below.close()


def slots_shuffle(data: Dataset, slots: Sequence[tuple[str, int]], seed: int = 0) -> SlotsShuffled:
    """Return the dataset with features permuted among rows.

    Parameters
    ----------
    data
        Any dataset.
    slots
        (column, element) pairs: ``("ids", 3)``; the element of a ragged column is 0, its whole list.
    seed
        Of the permutation.
    """
    for name, element in slots:
        column = data.schema[name]
        if not 0 <= element < column.width:
            raise DataError(f"column {name!r} has elements 0 .. {column.width - 1}, not {element}")
    same: dict[str, Any] = {"split_cost": data.split_cost, "bad_input": data.bad_input, "labels": data.labels}
    return SlotsShuffled(of=data, slots=tuple(slots), slot_seed=seed, **same)


@dataclass(frozen=True)
class Importance:
    """What one feature is worth: the score without it is ``drop`` lower."""

    feature: str
    column: str
    element: int
    drop: float


def feature_importance(
    data: Dataset, score: Callable[[Dataset], float], columns: Sequence[str] | None = None, seed: int = 0
) -> list[Importance]:
    """Score the data once as it is and once per permuted feature; return features, the most important first.

    Parameters
    ----------
    data
        Held-out data.
    score
        Higher is better, for example ``lambda d: session.evaluate(d)["auc"]``.
    columns
        Columns to look into; without it all but label and weight.
    seed
        Of the permutations.
    """
    names = columns or [column.name for column in data.schema if column.kind not in ("label", "weight")]
    whole = score(data)
    found = [
        Importance(data.schema[name].labels[i], name, i, whole - score(slots_shuffle(data, [(name, i)], seed)))
        for name in names
        for i in range(data.schema[name].width)
    ]
    return sorted(found, key=lambda item: -item.drop)
