"""Where messages pass: what workers send and receive at once, and links between pools in each direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heterps.simulator.timed.durations import PoolOfWorkers

__all__ = ["Place", "Wires"]


@dataclass(eq=False)
class Place:
    """A worker on the network; what it sends and what it receives go on apart, each one after another."""

    pool: str
    sends: PoolOfWorkers
    sends_from: float = 0.0  # when what was given to it so far is out
    receives_from: float = 0.0


class Wires:
    """Says when a message arrives: it passes the sender, a link where there is one, and the receiver, as a stream.

    Each of the three takes messages one after another; none waits for the next to be free.
    """

    def __init__(self, links: Mapping[frozenset[str], float], message_s: float) -> None:
        self._links, self._message_s = links, message_s
        self._free: dict[tuple[str, str], float] = {}
        self.passed: dict[tuple[str, str], float] = {}  # bytes, by direction

    def arrival(self, now: float, source: Place | None, target: Place | None, size: float) -> float:
        """Return when a message that is sent now arrives; the driver (None) has a network of its own."""
        if source is None or target is None or source is target or size <= 0:
            return now + self._message_s
        way = (source.pool, target.pool)
        self.passed[way] = self.passed.get(way, 0.0) + size
        begun = max(now, source.sends_from)
        source.sends_from = left = begun + size / source.sends.send_bytes_per_s
        link = self._links.get(frozenset(way))
        if link:
            begun = max(begun, self._free.get(way, 0.0))
            self._free[way] = begun + size / link
            left = max(left, self._free[way])
        target.receives_from = max(begun, target.receives_from) + size / target.sends.receive_bytes_per_s
        return max(left, target.receives_from) + self._message_s
