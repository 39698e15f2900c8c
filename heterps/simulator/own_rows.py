"""The rows that a simulated worker trains on itself, and what it must know of those of the hosts.

The rules are those of ``runtime/batch/geo_copy.py``. Every answer carries what the host really has, for the check only:
a copy that does not know it, after it was told what changed, has missed something for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from heterps.protocol import BatchKey
from heterps.protocol.words.messages import Push

__all__ = ["Grad", "Mark", "News", "OwnRows", "ServedRows"]

Grad = tuple[BatchKey, int]
Mark = tuple[int, int]
"""Which tables, and how many changes they had seen."""


class ServedRows(NamedTuple):
    """Answer to a pull: shards as they were when it was served; from which return to a cut they come and the batches
    that were in them, to compare. In Sync it brings the news that whoever asked has to hear.
    """

    mark: Mark
    values: tuple[tuple[int, int], ...]
    seen: Mapping[int, tuple[int, frozenset[BatchKey]]]
    news: News | None = None


class News(NamedTuple):
    """Answer to a push: the shards that changed since the mark that came with it; all that there are, to compare."""

    mark: Mark
    known: bool
    changed: Mapping[int, int]
    truth: Mapping[int, int]


class OwnRows:
    """The copy of one slot of a worker."""

    def __init__(self) -> None:
        self.user: int | None = None
        self.terms: tuple[int, ...] | None = None
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.base: dict[int, int] = {}
        self.heard: dict[int, tuple[int, Mark]] = {}  # by shard: from which host, and how old it was
        self.marks: dict[int, Mark] = {}
        self.learned: list[Grad] = []
        self.owed: dict[int, tuple[Grad, ...]] = {}

    def enter(self, attempt: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it."""
        if self.terms is not None and self.terms != terms:
            self.clear()
        self.user = attempt

    def leave(self, terms: tuple[int, ...], *, whole: bool) -> None:
        """End the attempt; one that leaves something unfinished leaves nothing."""
        self.user, self.terms = None, terms
        if not whole:
            self.clear()

    def asks(self, key: BatchKey, host: int, shards: tuple[int, ...]) -> bool:
        """Say whether a host must be asked before a batch can be computed."""
        return self.lacks(host, shards)

    def since(self, host: int) -> Mark | None:
        """Return up to when others are known, where a pull is to bring what they changed."""
        return None

    def receive(self, key: BatchKey, host: int, rows: ServedRows, low: int) -> str:
        """Take what a batch has asked for; return what is wrong with it, or nothing."""
        self.take(host, rows)
        return ""

    def fill(self, key: BatchKey) -> str:
        """A batch is computed from what is there when it is done: each comes after the one before it."""
        return ""

    def values(self, key: BatchKey) -> Iterable[tuple[int, int]]:
        """Return what a batch is computed from."""
        return self.base.items()

    def owes(self, push: Push, host: int, shards: tuple[int, ...]) -> tuple[tuple[int, ...], Any, Mark | None]:
        """Return what is owed for a unit, and up to when others are known."""
        return shards, self.settle(push.key.n), self.marks.get(host)

    def free(self, unit: BatchKey) -> None:
        """Every host has acknowledged a unit."""
        self.owed.pop(unit.n, None)

    def lacks(self, host: int, shards: Iterable[int]) -> bool:
        """Say whether a host must be asked before a batch can be computed."""
        return host not in self.marks or any(shard not in self.base for shard in shards)

    def take(self, host: int, rows: ServedRows) -> None:
        """Take what was asked for, unless something newer was heard meanwhile: then it is asked for again."""
        if rows.mark[1] >= self.marks.get(host, rows.mark)[1]:
            self.note(host, rows)
        self.marks.setdefault(host, rows.mark)

    def note(self, host: int, rows: ServedRows) -> None:
        """Know shards as a host had them."""
        self.base.update(rows.values)
        self.heard.update((shard, (host, rows.mark)) for shard, _ in rows.values)

    def learn(self, grad: Grad) -> str:
        """Learn from a batch; return which shards are known less well than was heard of their host, or nothing."""
        self.learned.append(grad)
        known = [(shard, *self.heard[shard]) for shard in self.base]
        old = sorted(n for n, host, (tables, age) in known if (tables, age) < self.marks.get(host, (0, 0)))
        return f"a batch is trained on shards {old} as they were before the last news of them" if old else ""

    def settle(self, unit: int) -> tuple[Grad, ...]:
        """Return what is owed for a unit: all that was learned and not settled, the same whenever it is asked."""
        if unit not in self.owed:
            self.owed[unit] = tuple(self.learned)
            self.learned = []
        return self.owed[unit]

    def hear(self, host: int, news: News) -> str:
        """Take what others changed; return what the copy has missed, or nothing.

        News that were overtaken say nothing new; where one link carries one request after another there are none.
        """
        before = self.marks.get(host, (0, 0))
        if news.mark[0] == before[0] and news.mark < before:
            return ""
        self.marks[host] = news.mark
        if not news.known:
            for shard in news.truth:
                self.base.pop(shard, None)
            return ""
        self.base.update((shard, value) for shard, value in news.changed.items() if shard in self.base)
        self.heard.update((shard, (host, news.mark)) for shard in news.truth)
        missed = sorted(n for n, value in news.truth.items() if self.base.get(n, value) != value)
        return f"a working copy has missed changes of shards {missed} of host {host}" if missed else ""
