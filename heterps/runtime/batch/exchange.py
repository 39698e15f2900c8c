"""What a worker and the shard hosts say to each other, counted: bytes of arrays, whatever way they take."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heterps.runtime.batch.cache_use import CacheUse, added

__all__ = ["Exchange", "ExchangeCounter"]


@dataclass(frozen=True)
class Exchange:
    """What was exchanged, and what workers keep of their own.

    Parameters
    ----------
    sent_bytes, received_bytes
        Ids, rows, gradients and changes that workers sent to shard hosts and got from them.
    local_rows, local_bytes
        Rows of tables that a worker has kept for itself: those of the one that kept most.
    caches
        What caches of rows came to, by table (names joined by a comma where tables share rows).
    """

    sent_bytes: int = 0
    received_bytes: int = 0
    local_rows: int = 0
    local_bytes: int = 0
    caches: Mapping[str, CacheUse] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @property
    def total_bytes(self) -> int:
        """Bytes both ways."""
        return self.sent_bytes + self.received_bytes

    def __add__(self, other: Exchange) -> Exchange:
        return Exchange(
            self.sent_bytes + other.sent_bytes,
            self.received_bytes + other.received_bytes,
            max(self.local_rows, other.local_rows),
            max(self.local_bytes, other.local_bytes),
            added(self.caches, other.caches),
        )

    def told(self, samples: int) -> str:
        """Say it in a few words; nothing where nothing is kept."""
        if not self.local_rows or not samples:
            return ""
        kept = f"{self.local_rows:,} own rows a worker, {self.total_bytes / samples:,.0f} bytes/sample"
        return ", ".join([kept, *(f"{table} {use.told}" for table, use in self.caches.items())])


class ExchangeCounter:
    """Counts for one bench; read by the thread that reports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = self._received = 0
        self._caches: Mapping[str, CacheUse] = {}

    def add(self, sent: int = 0, received: int = 0, caches: Mapping[str, CacheUse] | None = None) -> None:
        """Count bytes, and what caches were used for."""
        with self._lock:
            self._sent += sent
            self._received += received
            if caches:
                self._caches = added(self._caches, caches)

    def take(self) -> Exchange:
        """Return what was counted since the last call."""
        with self._lock:
            found = Exchange(self._sent, self._received, caches=self._caches)
            self._sent, self._received, self._caches = 0, 0, {}
        return found
