"""How many rows are worked on before others have a turn."""

from __future__ import annotations

__all__ = ["TURN"]

#: Positions a thread works on before it lets others have the lock.
TURN = 8192
