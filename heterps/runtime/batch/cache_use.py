"""What a cache of rows came to, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CacheUse", "added"]


@dataclass(frozen=True)
class CacheUse:
    """Counts of one table's cache.

    Parameters
    ----------
    rows
        Rows that batches used, each once a batch.
    asked
        Of these, rows that hosts had to be asked for.
    saved_bytes
        Fewer bytes than without a cache: rows that were not asked for, gradients that were added to others.
    age, oldest
        By how many batches of their own worker rows were behind: the sum over all that were used, and the most.
    device
        On which its rows are; empty where they are in memory.
    """

    rows: int = 0
    asked: int = 0
    saved_bytes: int = 0
    age: int = 0
    oldest: int = 0
    device: str = ""

    @property
    def hit_rate(self) -> float:
        """Share of the rows that were there."""
        return 1 - self.asked / self.rows if self.rows else 0.0

    @property
    def staleness(self) -> float:
        """Mean number of batches by which rows were behind."""
        return self.age / self.rows if self.rows else 0.0

    @property
    def told(self) -> str:
        """The numbers in a few words."""
        where = f"on {self.device}, " if self.device else ""
        return (
            f"{where}hits {100 * self.hit_rate:.0f} %, saved {self.saved_bytes / 1e6:,.1f} MB, "
            f"behind {self.staleness:.1f} (at most {self.oldest}) batches"
        )

    def __add__(self, other: CacheUse) -> CacheUse:
        return CacheUse(
            self.rows + other.rows,
            self.asked + other.asked,
            self.saved_bytes + other.saved_bytes,
            self.age + other.age,
            max(self.oldest, other.oldest),
            self.device or other.device,
        )


def added(one: Mapping[str, CacheUse], other: Mapping[str, CacheUse]) -> dict[str, CacheUse]:
    """Add up by table."""
    return {name: one.get(name, CacheUse()) + other.get(name, CacheUse()) for name in {**one, **other}}
