"""What is bought for a plan: whole machines, packs and single units, with what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heterps.errors import PlanError
from heterps.fields import Count, NotNegative, check_fields

__all__ = ["Purchase"]


@dataclass(frozen=True)
class Purchase:
    """So many of a product (a machine, a pack, a unit of a pool): the units by pool in one of it, and its price."""

    name: str
    count: Count
    holds: Mapping[str, Count]
    price_per_hour: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self, PlanError, f"purchase {self.name!r}")

    @property
    def is_whole(self) -> bool:
        """Whether more than a single unit is bought at once."""
        return sum(self.holds.values()) > 1

    @property
    def is_machine(self) -> bool:
        """Whether it is a product with a name of its own, not units or packs of a pool."""
        return [*self.holds] != [self.name]

    def text(self, used: Mapping[str, int]) -> str:
        """What is bought, in words, given the units that are used: ``3 g6-xlarge (3 of 3 l4, 2 of 3 side used)``."""
        if not self.is_whole:
            return f"{self.count} {self.name}"
        parts = (f"{used.get(pool, 0)} of {self.count * units} {pool}" for pool, units in self.holds.items())
        packs = "" if self.is_machine else f" in {next(iter(self.holds.values()))}s"
        count = self.count * (self.holds[self.name] if packs else 1)
        return f"{count} {self.name}{packs} ({', '.join(parts)} used)"
