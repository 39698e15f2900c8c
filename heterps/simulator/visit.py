"""What an engine does while the run rests: it looks at every host, each at a moment of its own, as a save does.

Every other visit also changes rows, as shrinking does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterps.protocol import BatchKey, Phase
from heterps.protocol.words import events as ev, instructions as do
from heterps.simulator import check

if TYPE_CHECKING:
    from heterps.simulator.world import World

__all__ = ["Visit"]


class Visit:
    """Looks at all hosts one after another; what it sees must be one moment of the run."""

    def __init__(self, world: World, rest: do.Rest) -> None:
        self._world, self._rest, self._life = world, rest.rest, world.life
        self._layout = world.run.layout()
        self._seen: list[dict[BatchKey, int]] = []

    def begin(self) -> None:
        """Go to the first host."""
        self._next(0)

    def _next(self, host: int) -> None:
        net = self._world.net
        if host < len(self._layout.copies):
            net.at(3 * net.random(), None, self._look, host)
            return
        if self._is_still_on():
            self._world.problem = self._world.problem or check.moment(self._seen)
            self._over(changed=self._change())
        else:
            self._over()

    def _change(self) -> bool:
        """Change what all primaries hold; a host that has died meanwhile is changed nowhere."""
        copies = [self._world.copies[copy] for copy in self._layout.copies]
        if self._rest % 2 == 0 or any(not copy.process.alive or copy.process.frozen for copy in copies):
            return False
        for host, copy in enumerate(copies):
            for shard in self._layout.owned(host):
                copy.rows[shard].notes += 1
        return True

    def _look(self, host: int) -> None:
        copy = self._world.copies[self._layout.copies[host]]
        if not copy.process.alive or copy.process.frozen:  # the save fails: the run goes on without it
            self._over()
            return
        group = [self._world.scenario.spec.shards] if host == 0 else []  # where there is one
        mine = (*self._layout.owned(host), *group)
        self._seen += [dict(copy.rows[shard].counts) for shard in mine if shard in copy.rows]
        self._next(host + 1)

    def _is_still_on(self) -> bool:
        world = self._world
        return world.life == self._life and world.run.phase is Phase.RESTING and world.run.layout() == self._layout

    def _over(self, changed: bool = False) -> None:
        if self._world.life == self._life:
            self._world.handle(ev.RestOver(self._rest, changed))  # the engine's own word: it is in the run's thread
