"""Sync on one host: gradients staged per step, committed in lane order once every lane is past the step.

1. A lane's *frontier* is the first step it may still push. It says "I am at step t" (a Pull, Push or Advance of t) only
   after all hosts acknowledged its pushes of earlier steps.
2. A step is committed once every lane's frontier is past it. So when any host has committed t, every push of t is
   staged on every host, and whatever an old attempt still sends for t is dropped everywhere.
3. If a push of t is missing on some host, no host has committed t: computing it again sees the same rows, bit by bit.
4. A lane whose data has ended stands at step 0 of the next pass.
5. Beside its frontier stands the batch of it, so that a driver that knows nothing can be told where the lane is.
"""

from __future__ import annotations

from typing import Any

from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import FAR, Push

__all__ = ["Lanes", "Position"]

Position = tuple[int, int]
"""Pass and step; ordered."""


class Lanes:
    """Frontiers and staged pushes of all lanes on one host."""

    __slots__ = ("batch", "committed", "frontier", "staged")

    def __init__(self, lanes: int) -> None:
        self.frontier: list[Position] = [(0, 0)] * lanes
        self.batch: list[BatchKey | None] = [None] * lanes
        """Of each frontier, as the lane called it; None where nobody has said since the cut."""
        self.committed: Position = (0, 0)
        self.staged: dict[Position, dict[int, Push]] = {}

    def reach(self, lane: int, key: BatchKey, step: int) -> None:
        """Move a lane's frontier forward; it never goes back (messages come late and twice)."""
        position = (key.pass_, step)
        if position >= self.frontier[lane]:
            self.frontier[lane], self.batch[lane] = position, key

    def stage(self, push: Push) -> bool:
        """Keep a push for its step; False if the lane has pushed this step before."""
        position = (push.key.pass_, push.step)
        self.reach(push.lane, push.key, push.step)
        if position < self.frontier[push.lane] or push.lane in self.staged.get(position, ()):
            return False
        self.staged.setdefault(position, {})[push.lane] = push
        return True

    def commit(self) -> list[tuple[Position, tuple[Push, ...]]]:
        """Return the steps that every lane is past, in order, each with its pushes in lane order; they are
        forgotten.
        """
        reached = min(self.frontier)
        if reached == self.committed:
            return []
        self.committed = reached
        due = sorted(position for position in self.staged if position < reached)
        return [(position, _in_lane_order(self.staged.pop(position))) for position in due]

    def due(self, lane: int, pass_: int) -> int:
        """Return the first step of a pass that the lane has not pushed here."""
        position = self.frontier[lane]
        if position[0] != pass_:
            return FAR if position[0] > pass_ else 0
        return position[1] + (lane in self.staged.get(position, ()))

    def reached(self, lane: int, pass_: int) -> int:
        """Return the lane's frontier as a step of a pass."""
        position = self.frontier[lane]
        return position[1] if position[0] == pass_ else (FAR if position[0] > pass_ else 0)

    def copy(self) -> Lanes:
        """Return an independent copy."""
        twin = Lanes(0)
        twin.frontier, twin.batch = list(self.frontier), list(self.batch)
        twin.committed = self.committed
        twin.staged = {position: dict(pushes) for position, pushes in self.staged.items()}
        return twin

    def to_json(self) -> list[list[int]]:
        """Return the frontiers. What is staged at a cut was left by attempts that were given up, and is sent again."""
        return [list(position) for position in self.frontier]

    @classmethod
    def from_json(cls, value: list[list[Any]]) -> Lanes:
        """Inverse of :meth:`to_json`."""
        lanes = cls(0)
        lanes.frontier = [(pass_, step) for pass_, step in value]
        lanes.batch = [None] * len(lanes.frontier)
        lanes.committed = min(lanes.frontier)
        return lanes

    def standing(self) -> list[list[Any]]:
        """Return of each lane its frontier, the batch there, and the first step of its pass that it has not staged."""
        return [[*position, self.batch[lane], self._top(lane)] for lane, position in enumerate(self.frontier)]

    def _top(self, lane: int) -> int:
        return max((step + 1 for (_, step), pushes in self.staged.items() if lane in pushes), default=0)


def _in_lane_order(pushes: dict[int, Push]) -> tuple[Push, ...]:
    return tuple(pushes[lane] for lane in sorted(pushes))
