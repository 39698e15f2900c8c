"""A simulated worker that trains some shards itself and asks for the others batch by batch.

The rules are those of ``runtime/batch/mixed_copy.py``: gradients of the others are pushed with each batch, what was
learned of its own shards with the last batch of a range.
"""

from __future__ import annotations

from heterps.protocol import BatchKey, Mixed
from heterps.protocol.words.messages import Push
from heterps.simulator.cached_rows import Owed
from heterps.simulator.own_rows import Grad, Mark, OwnRows, ServedRows

__all__ = ["MixedRows"]


def is_own(shard: int) -> bool:
    """Say whether workers train a shard themselves."""
    return shard % 2 == 1


class MixedRows(OwnRows):
    """The copy of one slot of a worker."""

    def __init__(self, mode: Mixed) -> None:
        self.mode = mode
        super().__init__()

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.grads: dict[int, Grad] = {}  # by batch, until hosts have it

    def asks(self, key: BatchKey, host: int, shards: tuple[int, ...]) -> bool:
        """Every batch asks."""
        return True

    def receive(self, key: BatchKey, host: int, rows: ServedRows, low: int) -> None:
        """Take the own shards that are lacking."""
        lacking = tuple(each for each in rows.values if is_own(each[0]) and each[0] not in self.base)
        self.take(host, rows._replace(values=lacking))

    def learn(self, grad: Grad) -> str:
        """Learn from a batch, and keep its gradient."""
        self.grads[grad[0].n] = grad
        return super().learn(grad)

    def owes(self, push: Push, host: int, shards: tuple[int, ...]) -> tuple[tuple[int, ...], Owed, Mark | None]:
        """Return what is owed for a batch, with the last one of a range also for that."""
        n = push.key.n
        own = self.settle(n) if push.settles else ()
        grads = {shard: own if is_own(shard) else (self.grads[n],) for shard in shards}
        return shards, Owed(grads, {}), self.marks.get(host) if push.settles else None

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a batch."""
        super().free(unit)
        self.grads.pop(unit.n, None)
