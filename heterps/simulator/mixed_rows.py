"""A simulated worker that trains some shards itself and asks for the others batch by batch.

The rules are those of ``runtime/batch/mixed_copy.py``: gradients of the others are pushed with each batch, what was
learned of its own shards with the last batch of a range. What others changed comes with the answer to that push, in
Sync with that to the next pull: before it nobody has committed the push.
"""

from __future__ import annotations

from heterps.protocol import BatchKey, Mode
from heterps.protocol.words.messages import Push
from heterps.simulator.cached_rows import Owed
from heterps.simulator.own_rows import Grad, Mark, News, OwnRows, ServedRows

__all__ = ["MixedRows"]


def is_own(shard: int) -> bool:
    """Say whether workers train a shard themselves."""
    return shard % 2 == 1


class MixedRows(OwnRows):
    """The copy of one slot of a worker."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        super().__init__()

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.grads: dict[int, Grad] = {}  # by batch, until hosts have it
        self.curious: set[int] = set()  # Sync: hosts that have committed a range since they were last heard

    def asks(self, key: BatchKey, host: int, shards: tuple[int, ...]) -> bool:
        """Every batch asks."""
        return True

    def since(self, host: int) -> Mark | None:
        """Return up to when others are known, with the first pull after a range."""
        return self.marks.get(host) if host in self.curious else None

    def receive(self, key: BatchKey, host: int, rows: ServedRows, low: int) -> str:
        """Take what others changed, and the own shards that are lacking."""
        missed = self._hear_with(host, rows.news)
        lacking = tuple(each for each in rows.values if is_own(each[0]) and each[0] not in self.base)
        self.take(host, rows._replace(values=lacking))
        return missed

    def _hear_with(self, host: int, news: News | None) -> str:
        """Take what came with a pull; return what is wrong with it, or nothing."""
        if news is None:
            late = host in self.curious and host in self.marks
            return f"a range has ended, but host {host} was not asked what others changed" if late else ""
        self.curious.discard(host)
        return self.hear(host, news)

    def learn(self, grad: Grad) -> str:
        """Learn from a batch, and keep its gradient."""
        self.grads[grad[0].n] = grad
        return super().learn(grad)

    def owes(self, push: Push, host: int, shards: tuple[int, ...]) -> tuple[tuple[int, ...], Owed, Mark | None]:
        """Return what is owed for a batch, with the last one of a range also for that."""
        n = push.key.n
        own = self.settle(n) if push.settles else ()
        grads = {shard: own if is_own(shard) else (self.grads[n],) for shard in shards}
        if push.settles and self.mode.ordered:
            self.curious.add(host)
        return shards, Owed(grads, {}), self.marks.get(host) if push.settles and not self.mode.ordered else None

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a batch."""
        super().free(unit)
        self.grads.pop(unit.n, None)
