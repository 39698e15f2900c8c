"""What shard hosts hold and what waits on workers, as it is when a report asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heterps.tables import Shard

__all__ = ["HeldTable", "Occupancy", "held_tables"]

Queues = Mapping[str, int]


@dataclass(frozen=True)
class HeldTable:
    """What one shard host has of a table.

    Parameters
    ----------
    host, worker
        Number of the shard host, and the worker that it is on.
    table
        Name; several with commas between where tables share rows.
    rows, bytes
        How many, and what they take with their index. Dense parameters have no rows.
    """

    host: int
    worker: str
    table: str
    rows: int
    bytes: int


def held_tables(shard: Shard, host: int, worker: str) -> tuple[HeldTable, ...]:
    """Return what a shard has; nobody waits for it, whatever is applied meanwhile."""
    return tuple(HeldTable(host, worker, table, *size) for table, size in shard.sizes().items())


class Occupancy:
    """What was told last of each shard host, and of each worker since the last report."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[HeldTable, ...]] = {}  # by host: whoever answers for it says what it has
        self._queues: dict[str, Queues] = {}  # by worker, of this report

    def add(self, tables: Iterable[HeldTable] = (), queues: Mapping[str, Queues] | None = None) -> None:
        """Take what one actor said; ``queues`` by worker."""
        held = tuple(tables)
        if held:
            self._tables[held[0].host] = held
        self._queues.update(queues or {})

    @property
    def tables(self) -> tuple[HeldTable, ...]:
        """All tables, in the order of hosts."""
        return tuple(table for host in sorted(self._tables) for table in self._tables[host])

    def take_queues(self) -> dict[str, int]:
        """Return how much waits, over all workers that said so since the last call."""
        found: Counter[str] = Counter()
        for queues in self._queues.values():
            found.update(queues)
        self._queues = {}
        return dict(found)
