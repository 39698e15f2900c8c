"""The words of rows on a device, by row number: values out, gradients in. Launches ``device_rows.cu``.

The words of a row are the values of all tables and then the optimiser slots, as in a host's row without its id
(:mod:`~heterps.tables.live.row_layout`), so that rows travel between hosts and devices as they are. Who has the words
says which id a row is: an index on the device, or one on the host.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from heterps.device.arrays import Array, Namespace, to_device
from heterps.device.raw import RawModule, cuda_text, raw_module
from heterps.errors import TableError
from heterps.tables.live.row_layout import RowLayout, RowSegment
from heterps.tables.on_device.able import no_cuda
from heterps.tables.specs.rules import Rule
from heterps.tables.specs.spec import GroupSpec

__all__ = ["RowWords", "kernels_for", "words_in"]

SOURCE = Path(__file__).with_name("device_rows.cu")
ID_WORDS = 2


class RowWords:
    """The words of some rows of one group on one device.

    Parameters
    ----------
    group, seed
        What the tables are, and what first values follow from.
    xp
        Array library of the device; it has to run CUDA kernels.

    Attributes
    ----------
    words
        ``[rows, values and slots]``.
    takes_numbers
        Whether rules take their numbers from the device.
    """

    takes_numbers: ClassVar[bool] = True

    def __init__(self, group: GroupSpec, *, seed: int, xp: Namespace) -> None:
        self.group, self.layout, self.xp = group, RowLayout(group, seed), xp
        self.words: Array = xp.zeros((0, words_in(self.layout)), np.float32)
        self._load_rules()

    def _load_rules(self) -> None:
        self._modules = {s.rule: kernels_for(s.rule, self.xp) for s in self.layout.segments}
        self._kernels = next(iter(self._modules.values()))

    def grow(self, rows: int, kept: int) -> None:
        """Have room for so many rows; the first ``kept`` of those that there are stay."""
        words = self.xp.zeros((rows, words_in(self.layout)), np.float32)
        if kept:
            words[:kept] = self.words[:kept]
        self.words = words

    def read(self, rows: Array) -> Array:
        """Return the values of rows, zeros where a row is -1."""
        n, width = rows.shape[0], self.group.width
        values = self.xp.empty((n, width), np.float32)
        args = (self.words, np.int64(words_in(self.layout)), np.int32(width), rows, values, np.int64(n * width))
        self._kernels.launch("read_values", n * width, args)
        return values

    def apply(
        self, rows: Array, gradients: Array, step: int, shows: Array | None = None, numbers: Array | None = None
    ) -> Array:
        """Apply one gradient to each of distinct rows; a row whose gradient is not finite is left as it is.

        ``numbers`` of the rules at that step, where they are there already. Returns a device array with the number of
        rows left out, so that nobody has to wait for it.
        """
        n, width, xp = rows.shape[0], self.group.width, self.xp
        numbers = to_device(self.layout.rule_numbers(step), xp) if numbers is None else numbers
        counts, rows = xp.zeros(1, np.int32), rows.copy()
        self._kernels.launch("skip_rows", n, (gradients, np.int32(width), rows, counts, np.int64(n)))
        scales = gradients if shows is None else shows
        for k, s in enumerate(self.layout.segments):
            place = (np.int32(width), np.int32(s.column), np.int32(s.n), np.int32(self._slot(s)))
            head = (np.int32(s.rule.code), numbers[k], self.words, np.int64(words_in(self.layout)), rows, gradients)
            tail = (scales, np.int32(shows is not None), np.int64(n))
            self._modules[s.rule].launch("apply_rule", n, (*head, *place, *tail))
        return counts

    def _slot(self, s: RowSegment) -> int:
        return s.slot - ID_WORDS


def words_in(layout: RowLayout) -> int:
    """Return the words of a row on a device."""
    return int(layout.width + layout.slots)


def kernels_for(rule: Rule, xp: Namespace) -> RawModule:
    """Return the kernels with a rule's CUDA body in them, or say that it has none."""
    text = cuda_text(SOURCE)
    if rule.code < 0:
        if rule.cuda is None:
            raise no_cuda(rule)
        text = text.replace("    // foreign rule\n", rule.cuda)
    module = raw_module(xp, text)
    if module is None:
        raise TableError(f"the device {getattr(xp, '__name__', xp)!r} runs no CUDA kernels and cannot hold tables")
    return module
