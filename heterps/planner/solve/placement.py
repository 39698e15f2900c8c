"""A solution of the planning problem, and the values that the problem itself is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Flow", "Placement", "Segment", "Shards"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_ENDLESS = 2**60  # hosts: more than anybody counts
TOLERANCE = 1e-9  # relative; a unit count is not raised for rounding errors in a product


@dataclass(frozen=True)
class Flow:
    """A tensor from one Layer to a later one: bytes per row, and those of its gradient. It crosses a cut once."""

    source: int
    target: int
    tensor: str
    bytes: float
    back: float = 0.0


@dataclass(frozen=True)
class Segment:
    """A stage: from state ``start`` to state ``stop`` on ``units`` of type ``type`` (and of a second one, if mixed)."""

    start: int
    stop: int
    type: int
    units: int
    other: int = -1
    other_units: int = 0

    @property
    def types(self) -> tuple[int, ...]:
        """Its type, or both."""
        return (self.type, self.other) if self.other >= 0 else (self.type,)

    @property
    def counts(self) -> tuple[int, ...]:
        """Units of its type, or of both."""
        return (self.units, self.other_units) if self.other >= 0 else (self.units,)


@dataclass(frozen=True)
class Placement:
    """A solution at one throughput: stages with units, shard hosts, price per hour, and what no solution undercuts."""

    segments: tuple[Segment, ...]
    hosts: int
    price: float
    bound: float

    def used(self, types: int) -> npt.NDArray[np.int64]:
        """Units by type, shard hosts not counted."""
        units = np.zeros(types, np.int64)
        for segment in self.segments:
            units[segment.type] += segment.units
            if segment.other >= 0:
                units[segment.other] += segment.other_units
        return units


@dataclass(frozen=True)
class Shards:
    """Shard hosts: seconds of one host per row, the least number that holds the tables, the type that carries them.

    ``type`` is -1 if their units are nobody else's; then ``price`` is per host and hour, else that of the type.
    ``calls`` are seconds per row that each host takes, however many there are: every batch calls every one of them.
    ``network`` are seconds per row of one host's network.
    """

    seconds: float = 0.0
    minimum: int = 0
    price: float = 0.0
    type: int = -1
    calls: float = 0.0
    network: float = 0.0

    def hosts(self, rows_per_second: float) -> int:
        """Least number of hosts at a throughput."""
        needed = np.ceil(self.each(rows_per_second) * rows_per_second * (1 - TOLERANCE))
        return max(self.minimum, int(min(needed, _ENDLESS)))

    def carry(self, rows_per_second: float) -> bool:
        """Whether any number of hosts is enough."""
        return self.hosts(rows_per_second) < _ENDLESS

    def each(self, rows_per_second: float) -> float:
        """Hosts, in fractions, for each row a second at a throughput: never fewer at a higher one; inf: none do.

        So many carry x rows a second as have the time, besides their calls: ``hosts * (1 - calls*x) = seconds*x``.
        """
        left = 1 - self.calls * rows_per_second
        return max(self.seconds / left if left > 0 else np.inf, self.network)

    def work(self, hosts: int) -> float:
        """Seconds per row of so many hosts together."""
        return max(self.seconds + self.calls * hosts, self.network)

    def speed(self, hosts: int) -> float:
        """Rows per second that so many hosts carry."""
        return hosts / self.work(hosts) if self.work(hosts) > 0 else np.inf

    @property
    def most(self) -> float:
        """Rows per second that no number of hosts exceeds."""
        return 1 / self.calls if self.calls > 0 else np.inf
