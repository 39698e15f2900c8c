"""Entries: which new ids get a row. Consulted when a push brings a gradient for an id without a row.

An id that is not admitted reads as zeros and its gradients are dropped; what was seen of it is counted apart, in a few
bytes. Decisions follow from the batch key, the seed and the counts only, so a repeated batch decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.fields import Finite, Found, Fraction, Natural, check_fields
from heterps.tables.hashing import shards_of
from heterps.tables.specs.registry import Registry

__all__ = ["ENTRIES", "CountEntry", "Entry", "ProbabilityEntry", "ShowClickEntry"]

U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Entry:
    """Base of all entries."""

    #: Whether shows and clicks of ids without a row are to be counted.
    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"entry {type(self).__name__}")

    @classmethod
    def from_found(cls, found: Found) -> Entry:
        """Read an entry where a document has one."""
        return ENTRIES.from_json(found)

    def admit(self, ids: U64, shows: F32, clicks: F32, key: int) -> Mask:
        """Say which ids get a row now.

        Parameters
        ----------
        ids
            Ids without a row that this batch has gradients for.
        shows, clicks
            What was counted for each, this batch included (a batch without counts adds one show an id).
        key
            64 bits made of the seed and the batch key, for randomness that a repeated batch repeats.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return ENTRIES.to_json(self)


ENTRIES: Registry[Entry] = Registry("entry")


@ENTRIES.add
@dataclass(frozen=True)
class ProbabilityEntry(Entry):
    """Admit an id with probability ``p`` at each batch it is seen in."""

    counts: ClassVar[bool] = False
    p: Fraction

    def admit(self, ids: U64, shows: F32, clicks: F32, key: int) -> Mask:
        """Throw a coin for each id."""
        return shards_of(ids ^ np.uint64(key), 1 << 53) < self.p * (1 << 53)


@ENTRIES.add
@dataclass(frozen=True)
class CountEntry(Entry):
    """Admit an id when it was shown ``n`` times."""

    n: Natural

    def admit(self, ids: U64, shows: F32, clicks: F32, key: int) -> Mask:
        """Compare the shows."""
        return shows >= self.n


@ENTRIES.add
@dataclass(frozen=True)
class ShowClickEntry(Entry):
    """Admit an id when ``show_coeff * shows + click_coeff * clicks >= threshold``."""

    show_coeff: Finite = 1.0
    click_coeff: Finite = 1.0
    threshold: Finite = 1.0

    def admit(self, ids: U64, shows: F32, clicks: F32, key: int) -> Mask:
        """Compare the score."""
        return self.show_coeff * shows + self.click_coeff * clicks >= self.threshold
