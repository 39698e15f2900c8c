"""Primary and backup of one host: one order, and no answer before the backup has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from heterps.protocol.words.decisions import Answer, Decision, Fill, Forward, Report, Serve, Snapshot
from heterps.protocol.words.events import BackupReady

__all__ = ["Replica"]

_WAITS = (Answer, Serve, Report)
"""Decisions that tell someone something and therefore wait for the backup."""


class Replica:
    """What a copy knows about the other copy of its host.

    As a primary: the number of the last forwarded request, what is unconfirmed, and the answers held back. As a backup:
    what arrived out of order, and how far it has followed.
    """

    def __init__(self, copy: int) -> None:
        self.copy = copy
        self.backup: int | None = None
        self._newest = 0
        self.seq = 0
        self.confirmed = 0
        self.done = 0
        self._filled_at: int | None = None
        self._ready_at: int | None = None
        self._announced = False
        self._sent: dict[int, Any] = {}
        self._held: deque[tuple[int, Decision]] = deque()
        self._early: dict[int, Any] = {}

    # --- as primary

    @property
    def live(self) -> bool:
        """The backup is filled: from here on answers wait for it."""
        return self._ready_at is not None

    def order(self, term: int, request: Any, decisions: list[Decision]) -> list[Decision]:
        """Return the forward to the backup and the decisions, minus those that must wait for its confirmation.

        The forward comes first: primary and backup apply the same gradients at the same time.
        """
        if self.backup is None:
            return decisions
        self.seq += 1
        self._sent[self.seq] = request
        return [Forward(self.backup, term, self.seq, request), *self.hold(decisions)]

    def hold(self, decisions: list[Decision]) -> list[Decision]:
        """Hold back what tells someone something until all that was forwarded so far is confirmed."""
        if not self.live or self.confirmed >= self.seq:
            return decisions
        self._held.extend((self.seq, d) for d in decisions if type(d) in _WAITS)
        return [d for d in decisions if type(d) not in _WAITS]

    def attach(self, backup: int, term: int, snapshot: Callable[[], Snapshot]) -> list[Decision]:
        """Start to fill a backup; it counts only when it has everything that was ever answered."""
        if backup <= self._newest:  # a late word about one that was replaced
            return []
        self._newest = backup
        released = self._let_go()
        self.backup = backup
        self.confirmed = self.seq - 1
        return [*released, Fill(backup, term, self.seq, snapshot())]

    def detach(self, backup: int) -> list[Decision]:
        """Go on alone: whatever waited for this backup can be answered."""
        return self._let_go() if backup == self.backup else []

    def leave(self) -> None:
        """Drop the backup and every answer held back: their state is gone."""
        self._held.clear()
        self._let_go()

    def _let_go(self) -> list[Decision]:
        released = [decision for _, decision in self._held]
        self._held.clear()
        self._sent.clear()
        self.backup, self._ready_at, self._announced = None, None, False
        return released

    def confirm(self, backup: int, seq: int) -> list[Decision]:
        """The backup has followed up to ``seq``: release the answers that waited for that."""
        if backup != self.backup or seq <= self.confirmed:
            return []
        for number in range(self.confirmed + 1, seq + 1):
            self._sent.pop(number, None)
        self.confirmed = seq
        released: list[Decision] = []
        while self._held and self._held[0][0] <= seq:
            released.append(self._held.popleft()[1])
        return released + self._become_live()

    def _become_live(self) -> list[Decision]:
        """Answers given while it was being filled did not wait: it is ready once it has those, too."""
        assert self.backup is not None
        if self._ready_at is None:
            self._ready_at = self.seq
        if self._announced or self.confirmed < self._ready_at:
            return []
        self._announced = True
        return [Report(BackupReady(self.copy, self.backup))]

    def unconfirmed(self, term: int, snapshot: Callable[[], Snapshot]) -> list[Decision]:
        """Return the Fill and Forwards that may be lost."""
        if self.backup is None:
            return []
        forwards = [Forward(self.backup, term, seq, request) for seq, request in sorted(self._sent.items())]
        fill = [] if self.live else [Fill(self.backup, term, self.seq, snapshot())]
        return [*fill, *forwards]

    # --- as backup

    def fill(self, seq: int) -> bool:
        """Start from a snapshot taken after ``seq``; False if there was one before."""
        if self._filled_at is not None:
            return False
        self._filled_at = self.done = self.seq = seq
        self._early = {number: request for number, request in self._early.items() if number > seq}
        return True

    @property
    def filled(self) -> bool:
        """It has a snapshot to follow from."""
        return self._filled_at is not None

    def keep(self, seq: int, request: Any) -> None:
        """Keep a forwarded request until its turn."""
        if self._filled_at is None or seq > self.done:
            self._early[seq] = request

    def in_order(self) -> Iterator[Any]:
        """Yield the requests whose turn has come."""
        while self._filled_at is not None and self.done + 1 in self._early:
            self.done += 1
            yield self._early.pop(self.done)

    def lead(self) -> bool:
        """Become primary: what came after a gap was never answered and is dropped. False if never filled."""
        if self._filled_at is None:
            return False
        self._early.clear()
        self.seq = self.confirmed = self.done
        return True
