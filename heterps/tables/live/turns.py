"""How many rows are worked on before others have a turn."""

from __future__ import annotations

__all__ = ["PULL_TURN", "TURN"]

#: Positions a thread works on before it lets others have the lock.
TURN = 8192
#: Those of a pull or push to rows in memory, one to two milliseconds. Two lanes that meet at the lock in shorter turns
#: keep each other waiting at each of them; after a long one they are out of step, and stay so.
PULL_TURN = 32768
