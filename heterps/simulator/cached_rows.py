"""The cache of a simulated worker: rows that it keeps for a while, and gradients that it gathers.

The rules are those of ``runtime/batch/cache_copy.py``; how old rows may be is decided by the same class. Every answer
carries which batches the host had applied, for the checks only: a batch may lack no more of its worker's own than it is
allowed, those that its worker has put on top itself must not be among what the host had, and what hosts take must not
come from rows as they were before a return to a cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heterps.protocol import BatchKey
from heterps.protocol.client.freshness import Freshness
from heterps.protocol.words.messages import Push
from heterps.protocol.words.modes import Cached
from heterps.simulator.own_rows import Grad, Mark, ServedRows

__all__ = ["CacheRows", "Owed"]

MOST = 1  # shards that are kept beside those of batches under way


class Known(NamedTuple):
    """A shard as it was, the moment under which it is kept, from which return to a cut it came, what was in it."""

    value: int
    moment: int
    loaded: int
    batches: frozenset[BatchKey]


class Owed(NamedTuple):
    """What a unit owes: gradients by shard, and from which returns to cuts the rows came that they rest on."""

    grads: Mapping[int, tuple[Grad, ...]]
    based_on: Mapping[int, set[int]]


class CacheRows:
    """The cache of one slot of a worker."""

    def __init__(self, mode: Cached, shards: int, ran: Counter[BatchKey]) -> None:
        self.mode, self.shards = mode, shards  # every batch has rows on each of these
        self.ran = ran  # how often batches were computed, by anybody
        self.user: int | None = None
        self.terms: tuple[int, ...] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.fresh = Freshness(self.mode.staleness, self.mode.unit)
        self.known: dict[int, Known] = {}
        self.coming: dict[int, int] = {}  # by shard: as of which moment it was last asked for
        self.asked: dict[int, dict[int, tuple[tuple[int, ...], int]]] = {}  # by batch and host: what, and when
        self.used: dict[int, dict[int, Known]] = {}  # by batch: what it is computed from
        self.trained: dict[int, BatchKey] = {}  # by count: the batches of this worker
        self.learned: dict[int, BatchKey] = {}  # by count: of these, those that were computed
        self.gathered: dict[BatchKey, dict[int, list[Grad]]] = {}
        self.based_on: dict[BatchKey, dict[int, set[int]]] = {}
        self.owed: dict[BatchKey, Owed] = {}

    def enter(self, attempt: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it."""
        if self.terms is not None and self.terms != terms:
            self.clear()
        self.user = attempt
        self.fresh.enter()

    def leave(self, terms: tuple[int, ...], *, whole: bool) -> None:
        """End the attempt; one that leaves something unfinished leaves nothing."""
        self.user, self.terms = None, terms
        if not whole:
            self.clear()

    def asks(self, key: BatchKey, host: int, shards: Iterable[int]) -> bool:
        """Say whether a host must be asked before a batch can be computed; what for is decided once."""
        asked = self.asked.setdefault(key.n, {})
        if host not in asked:
            self.fresh.begin(key.n)
            self.trained[self.fresh.count(key.n)] = key
            now, needed = self.fresh.contained, self.fresh.needed(key.n)
            asked[host] = tuple(n for n in shards if self._moment(n) < needed), now
            self.coming.update(dict.fromkeys(asked[host][0], now))
        return bool(asked[host][0])

    def _moment(self, shard: int) -> int:
        heard = self.known[shard].moment if shard in self.known else -(1 << 62)
        return max(heard, self.coming.get(shard, heard))

    def receive(self, key: BatchKey, host: int, rows: ServedRows, low: int) -> str:
        """Take what was asked for, unless something newer came meanwhile; the host had all before ``low``."""
        shards, moment = self.asked[key.n][host]
        moment = max(moment, self.fresh.count(low))
        values = dict(rows.values)
        for shard in shards:
            if shard not in self.known or self.known[shard].moment < moment:
                self.known[shard] = Known(values[shard], moment, *rows.seen[shard])
        return ""

    def fill(self, key: BatchKey) -> str:
        """Take down what a batch is computed from; return what is too old in it, or nothing."""
        self.used[key.n] = {shard: self.known[shard] for shard in range(self.shards)}
        first = self.fresh.count(key.n) - self.mode.staleness
        must = {batch for count, batch in self.trained.items() if count < first}
        lacking = {shard: must - known.batches for shard, known in self.used[key.n].items()}
        old = {shard: sorted(map(tuple, lacks)) for shard, lacks in lacking.items() if lacks}
        twice = {shard: self._on_top(known) & known.batches for shard, known in self.used[key.n].items()}
        if any(twice.values()):
            return f"batch {tuple(key)} is computed from rows that have batches twice: {twice}"
        return f"batch {tuple(key)} is computed from rows that lack {old}" if old else ""

    def _on_top(self, known: Known) -> set[BatchKey]:
        """Return the batches whose steps this worker takes itself, on top of what a host had.

        What was computed twice, since an attempt failed or seemed to, may have come to the host from the other one: for
        at most ``staleness`` batches it is seen twice, and counted once.
        """
        return {batch for count, batch in self.learned.items() if count >= known.moment and self.ran[batch] < 2}

    def values(self, key: BatchKey) -> list[tuple[int, int]]:
        """Return what a batch is computed from."""
        return [(shard, known.value) for shard, known in self.used[key.n].items()]

    def learn(self, grad: Grad) -> str:
        """Gather the gradients of a batch; then let shards go."""
        key = grad[0]
        self.ran[key] += 1
        self.learned[self.fresh.count(key.n)] = key
        unit = key._replace(n=key.n - key.n % self.mode.unit)
        gathered, based = self.gathered.setdefault(unit, {}), self.based_on.setdefault(unit, {})
        for shard, known in self.used.pop(key.n).items():
            gathered.setdefault(shard, []).append(grad)
            based.setdefault(shard, set()).add(known.loaded)
        del self.asked[key.n]
        if not self.asked:
            self.let_go(sorted(self.known, key=lambda shard: self.known[shard].moment)[:-MOST])
        return ""

    def let_go(self, shards: Iterable[int]) -> None:
        """Keep these shards no more; what was gathered for them is owed all the same."""
        for shard in shards:
            del self.known[shard]
            self.coming.pop(shard, None)

    def owes(self, push: Push, host: int, shards: tuple[int, ...]) -> tuple[tuple[int, ...], Owed, Mark | None]:
        """Return what is owed for a unit, the same whenever it is asked."""
        unit = push.key
        if unit not in self.owed:
            grads = {shard: tuple(grads) for shard, grads in self.gathered.pop(unit).items()}
            self.owed[unit] = Owed(grads, self.based_on.pop(unit))
        return shards, self.owed[unit], None

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a unit."""
        self.owed.pop(unit, None)
        self.fresh.settled(unit.n)
