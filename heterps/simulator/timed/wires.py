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
    """Says when a message leaves and arrives: it passes the sender, a link where there is one, and the receiver.

    Each of the three takes messages one after another, in the order in which they begin to leave; none waits for the
    next to be free. What waits at a sender is not at its receiver yet: a slow one keeps nobody from being heard.
    """

    def __init__(self, links: Mapping[frozenset[str], float], message_s: float) -> None:
        self._links, self._message_s = links, message_s
        self._free: dict[tuple[str, str], float] = {}
        self.passed: dict[tuple[str, str], float] = {}  # bytes, by direction

    def leaves(self, now: float, source: Place, size: float) -> float:
        """Return when a message that is given to its sender now begins to leave."""
        begun = max(now, source.sends_from)
        source.sends_from = begun + size / source.sends.send_bytes_per_s
        return begun

    def arrival(self, begun: float, source: Place, target: Place, size: float) -> float:
        """Return when a message that leaves now arrives; those that left before are known."""
        way = (source.pool, target.pool)
        self.passed[way] = self.passed.get(way, 0.0) + size
        left = begun + size / source.sends.send_bytes_per_s
        link = self._links.get(frozenset(way))
        if link:
            begun = max(begun, self._free.get(way, 0.0))
            self._free[way] = begun + size / link
            left = max(left, self._free[way])
        target.receives_from = max(begun, target.receives_from) + size / target.sends.receive_bytes_per_s
        return max(left, target.receives_from) + self._message_s
