"""Actors that outlive their driver: what nobody holds any more is freed, after a while.

A driver that ends closes its actors. One that is killed cannot; then the scheduler loses its connection, which the
driver's own Dask client keeps alive from a thread of its own however busy the driver is, and Dask lets go of the
driver's actors. But their threads and sockets keep them, so a look at what Dask still knows decides.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from distributed import Status

from heterps.runtime.config import settings
from heterps.runtime.own_threads import logged, start_thread

__all__ = ["Leases"]

_LOOK_S = 0.5
_BEGIN_S = 5.0  # between the making of an actor and Dask's knowing of it
_log = logging.getLogger("heterps")


@dataclass(eq=False)
class _Lease:
    """One actor: who holds it, and since when nobody does."""

    actor: object
    worker: Any
    end: Callable[[], None]
    known: bool = False
    since: float = field(default_factory=monotonic)

    @property
    def is_held(self) -> bool:
        """Whether Dask knows of it, which means that its driver lives."""
        return any(held is self.actor for held in list(self.worker.state.actors.values()))

    @property
    def is_orphan(self) -> bool:
        """Whether Dask knew of it and does not any more."""
        return self.known and not self.is_held

    def is_over(self, now: float, orphans_s: float) -> bool:
        if self.is_held:
            self.known, self.since = True, now
        return now - self.since >= (orphans_s if self.known else max(orphans_s, _BEGIN_S)) or self._is_closed()

    def _is_closed(self) -> bool:
        return self.worker.status in (Status.closed, Status.failed)


class Leases:
    """The actors of this process. One thread looks after all of them, and ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, _Lease] = {}  # by identity of the actor
        self._watched = False  # whether the thread is there

    def begin(self, actor: object, worker: Any, end: Callable[[], None]) -> None:
        """Look after an actor; ``end`` frees it."""
        with self._lock:
            self._held[id(actor)] = _Lease(actor, worker, end)
            if not self._watched:
                self._watched = True
                start_thread("leases", self._watch, failed=logged("looking after what drivers left behind"))

    def over(self, actor: object) -> None:
        """An actor was freed by its driver."""
        with self._lock:
            self._held.pop(id(actor), None)

    def of(self, worker: Any) -> list[tuple[Any, bool]]:
        """Return the actors of a worker, each with whether its driver is gone."""
        return [(each.actor, each.is_orphan) for each in self._leases() if each.worker is worker]

    def all(self) -> list[tuple[Any, bool]]:
        """Return the actors of this process, likewise."""
        return [(each.actor, each.is_orphan) for each in self._leases()]

    def _leases(self) -> list[_Lease]:
        with self._lock:
            return list(self._held.values())

    def _watch(self) -> None:
        pause = threading.Event()
        while not self._is_done():
            pause.wait(_LOOK_S)
            now, orphans_s = monotonic(), settings().orphans_s
            with self._lock:
                ended = [lease for lease in self._held.values() if lease.is_over(now, orphans_s)]
                for lease in ended:
                    del self._held[id(lease.actor)]
            for lease in ended:
                _free(lease)

    def _is_done(self) -> bool:
        with self._lock:
            self._watched = bool(self._held)
            return not self._watched


def _free(lease: _Lease) -> None:
    try:
        lease.end()
    except Exception as error:
        _log.warning("what a driver left behind could not be freed: %s: %s", type(error).__name__, error)
