"""Addresses of copies, stages and members, and which workers have them: nobody is sent what it has already.

With a thousand hosts they are the largest part of an instruction, and io workers keep what they were told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from heterps.runtime.workers.delivery import Addresses

__all__ = ["Directory", "Sent"]


class Sent(NamedTuple):
    """What goes with an instruction, and which edition of the directory its worker has once it took it."""

    addresses: Addresses
    edition: int


class Directory:
    """Who was told which addresses; belongs to the run's thread.

    Parameters
    ----------
    current
        Returns all addresses as they are now.
    """

    def __init__(self, current: Callable[[], Addresses]) -> None:
        self._current = current
        self._newest: Addresses = {}
        self._edition = 0
        self._has: dict[str, int] = {}  # the edition that a worker is known to have

    def send(self, worker: str) -> Sent:
        """Return what a worker must be sent: everything, unless it is known to have that.

        What is sent must not change on its way.
        """
        now = self._current()
        if now != self._newest:
            self._newest, self._edition = now, self._edition + 1
        return Sent({} if self._has.get(worker) == self._edition else now, self._edition)

    def has(self, worker: str, sent: Sent) -> None:
        """A worker took what it was sent."""
        self._has[worker] = max(sent.edition, self._has.get(worker, 0))

    def forget(self, worker: str) -> None:
        """A worker has nothing, or nothing any more."""
        self._has.pop(worker, None)
