"""Rows of a group on a device that runs no CUDA: the same words and the same table, made of array functions.

The index is the ids in ascending order beside their rows. Sums over a row are the library's own, so that values are
within rounding of the kernels' (:mod:`~heterps.tables.on_device.array_rules`).
"""

from __future__ import annotations

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.device.raw import runs_kernels
from heterps.tables.hashing import RESERVED
from heterps.tables.on_device.array_rules import array_rule
from heterps.tables.on_device.dedupe import DistinctIds
from heterps.tables.on_device.device_rows import DeviceRows
from heterps.tables.on_device.row_words import RowWords
from heterps.tables.specs.spec import GroupSpec

__all__ = ["ArrayRows", "ArrayWords", "rows_on", "words_on"]


def rows_on(xp: Namespace, group: GroupSpec, *, seed: int, rows: int = 1024, limit: int | None = None) -> DeviceRows:
    """Return an empty table on a device: of kernels where it runs them, else of array functions."""
    made = DeviceRows if runs_kernels(xp) else ArrayRows
    return made(group, seed=seed, xp=xp, rows=rows, limit=limit)


def words_on(xp: Namespace, group: GroupSpec) -> RowWords:
    """Return words on a device, of no row yet, in the same way."""
    made = RowWords if runs_kernels(xp) else ArrayWords
    return made(group, seed=0, xp=xp)


class ArrayWords(RowWords):
    """See :class:`~heterps.tables.on_device.row_words.RowWords`."""

    takes_numbers = False

    def _load_rules(self) -> None:
        self._formulas = {s.rule: array_rule(s.rule) for s in self.layout.segments}

    def read(self, rows: Array) -> Array:
        """Return the values of rows, zeros where a row is -1."""
        known = rows >= 0
        values = self.xp.take(self.words, self.xp.where(known, rows, 0), axis=0)[:, : self.group.width]
        return values * known.astype(np.float32).reshape(-1, 1)

    def apply(
        self, rows: Array, gradients: Array, step: int, shows: Array | None = None, numbers: Array | None = None
    ) -> Array:
        """Apply one gradient to each of distinct rows; see :class:`RowWords`."""
        xp = self.xp
        good = xp.all(xp.isfinite(gradients), axis=1, keepdims=True)
        gradients = xp.where(good, gradients, xp.zeros_like(gradients))
        before = xp.take(self.words, rows, axis=0)
        after = before.copy()
        for s, packed in zip(self.layout.segments, self.layout.rule_numbers(step), strict=True):
            values, slot = slice(s.column, s.column + s.n), self._slot(s)
            slots, given = slice(slot, slot + s.rule.slots(s.n)), [float(number) for number in packed]
            new, kept = self._formulas[s.rule](xp, given, before[:, values], before[:, slots], gradients[:, values])
            if s.rule.bounds is not None:
                new = xp.minimum(xp.maximum(new, given[0]), given[1])
            after[:, values] = new
            if slots.stop > slots.start:
                after[:, slots] = kept
        self.words[rows] = xp.where(good, after, before)
        return xp.sum(xp.logical_not(good), dtype=np.int32).reshape(1)


class ArrayRows(ArrayWords, DeviceRows):
    """See :class:`~heterps.tables.on_device.device_rows.DeviceRows`; new rows come from hosts only (:meth:`load`)."""

    def _clear_index(self, rows: int) -> None:
        self._keys, self._places = self.xp.empty(0, np.uint64), self.xp.empty(0, np.int32)

    def _find(self, ids: Array) -> tuple[Array, Array]:
        xp, n = self.xp, ids.shape[0]
        rows, known = xp.full(n, -1, dtype=np.int32), self._keys.shape[0]
        if known:
            at = xp.minimum(xp.searchsorted(self._keys, ids), known - 1)
            rows = xp.where(xp.take(self._keys, at) == ids, xp.take(self._places, at), rows)
        missing, reserved = xp.sum(rows < 0), xp.sum(ids == np.uint64(RESERVED))
        return rows, xp.stack([missing, reserved, reserved])

    def _enter(self, ids: Array, rows: Array) -> None:
        new = self.xp.flatnonzero(rows >= 0)
        keys = self.xp.concatenate([self._keys, self.xp.take(ids, new)])
        places = self.xp.concatenate([self._places, self.xp.take(rows, new)])
        order = self.xp.argsort(keys)
        self._keys, self._places = self.xp.take(keys, order), self.xp.take(places, order)

    def _start(self, ids: Array, rows: Array) -> None:
        raise NotImplementedError("rows of this table come from hosts, which give them their first values")

    def merge(self, found: DistinctIds, gradients: Array) -> Array:
        """Add up the gradients of each id, in whatever order the library does that."""
        merged = self.xp.zeros((len(found), gradients.shape[1]), np.float32)
        self.xp.add.at(merged, found.inverse, gradients)
        return merged
