"""Pieces of an instance that need not be parted: what takes no time is placed with what it belongs to.

Where all pieces together fit one accelerator, memory decides nothing, and two theorems hold for pieces that take no
time anywhere and may run anywhere. Pieces of one run stay one run, cuts stay legal, in both.

1. A piece with one predecessor and no successor that exchanges tensors with its predecessor only may be moved to that
   one's device: what passed between the two passes no more.
2. A piece with one successor may be moved to that one's device if the tensors that only its successor reads take no
   less time to transfer than all that it exchanges with others: these pass between other devices now, those pass no
   more, and each device has at most the latter more and, if it has any of it, the former less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heterps.planner.costs.instance import Instance, OpTensor

__all__ = ["joined"]


def joined(instance: Instance) -> Instance:
    """Return the instance with pieces joined that some best placement has together."""
    if not instance.bytes.sum() <= instance.memory_bytes:
        return instance
    pieces = _Pieces(instance)
    while pieces.join():
        pass
    return pieces.instance()


class _Pieces:
    """Pieces by number, with what comes before and after each, and tensors between them."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._members = {v: [v] for v in range(len(instance.ids))}
        self._before: dict[int, set[int]] = {v: set() for v in self._members}
        self._after: dict[int, set[int]] = {v: set() for v in self._members}
        for a, b in instance.edges:
            self._before[b].add(a)
            self._after[a].add(b)
        self._tensors = {i: (t.source, frozenset(t.readers), t.cost) for i, t in enumerate(instance.tensors)}
        self._touching: dict[int, set[int]] = {v: set() for v in self._members}
        for i, (source, readers, _) in self._tensors.items():
            for v in {source} | readers:
                self._touching[v].add(i)
        idle = (instance.cpu_s == 0) & (instance.accelerator_s == 0) & instance.supported
        self._idle = [int(v) for v in np.flatnonzero(idle)]

    def join(self) -> bool:
        """Join each piece that can be with another one; return whether there was one."""
        stay = []
        for v in self._idle:
            into = self._joins(v)
            if into is None:
                stay.append(v)
            else:
                self._join(v, into)
        some, self._idle = len(stay) < len(self._idle), stay
        return some

    def _joins(self, v: int) -> int | None:
        """The piece that another may be moved to; None if there is none."""
        before, after = self._before[v], self._after[v]
        if not after and len(before) == 1 and not self._with_others(v, *before):
            return next(iter(before))
        if len(after) == 1 and self._for_one(v, *after) >= sum(self._with_others(v, *after)):
            return next(iter(after))
        return None

    def _of(self, v: int) -> list[tuple[int, frozenset[int], float]]:
        """The tensors that a piece makes or reads."""
        return [self._tensors[i] for i in sorted(self._touching[v])]

    def _for_one(self, v: int, reader: int) -> float:
        """Time of the tensors of a piece that only one other reads."""
        return sum(cost for source, readers, cost in self._of(v) if source == v and readers == {reader})

    def _with_others(self, v: int, one: int) -> list[float]:
        """Times of the tensors that a piece exchanges with others than one."""
        return [
            cost
            for source, readers, cost in self._of(v)
            if (source == v and readers != {one}) or (v in readers and source != one)
        ]

    def _join(self, v: int, into: int) -> None:
        self._members[into] += self._members.pop(v)
        for mine, others in ((self._before, self._after), (self._after, self._before)):
            for other in mine.pop(v) - {into}:
                others[other] = others[other] - {v} | {into}
                mine[into] = mine[into] | {other}
        self._before[into] = self._before[into] - {v}
        self._after[into] = self._after[into] - {v}
        for i in self._touching.pop(v):
            self._move(i, v, into)

    def _move(self, i: int, v: int, into: int) -> None:
        """Let a tensor be made and read by another piece; one that stays in that is none."""
        source, readers, cost = self._tensors[i]
        source, readers = into if source == v else source, frozenset(into if r == v else r for r in readers)
        if readers == {source}:
            del self._tensors[i]
            self._touching[into].discard(i)
        else:
            self._tensors[i] = source, readers, cost
            self._touching[into].add(i)

    def instance(self) -> Instance:
        """The instance of what is left, in the order in which it was."""
        old, kept = self._instance, sorted(self._members)
        place = {v: i for i, v in enumerate(kept)}
        every = [self._members[v] for v in kept]

        def total(
            figures: np.ndarray[tuple[int], np.dtype[np.float64]],
        ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return np.array([figures[members].sum() for members in every])

        return replace(
            old,
            ids=tuple(tuple(i for v in members for i in old.ids[v]) for members in every),
            edges=frozenset((place[v], place[w]) for v in kept for w in self._after[v]),
            cpu_s=total(old.cpu_s),
            accelerator_s=total(old.accelerator_s),
            bytes=total(old.bytes),
            supported=np.array([old.supported[members].all() for members in every]),
            tensors=tuple(
                OpTensor(place[source], tuple(sorted(place[r] for r in readers)), cost)
                for source, readers, cost in self._tensors.values()
            ),
        )
