"""An object on a worker: a Dask actor that lives as long as this handle, every call with a time limit."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import dask
from distributed import Client, get_worker

from heterps.errors import ClusterError
from heterps.runtime.answers import actor_call, answer, asking, submitted, told
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.config import settings
from heterps.runtime.run.lease import Leases
from heterps.runtime.wire.worker_sockets import worker_place

__all__ = ["LEASES", "Remote", "Seat", "fate_of", "free_left"]

_STEP_S = 1.0  # a look that was late by more was kept waiting by the scheduler: no time in which an actor could be made
_QUIET = threading.Lock()  # Dask's config is one for all threads


LEASES = Leases()
"""Of the actors of this process."""
_FATES: dict[str, str] = {}  # what became of the actors of runs whose driver was gone, the latest last
_MOST_FATES = 100
_log = logging.getLogger("heterps")


class Seat:
    """What Dask knows as the actor: makes the object and calls it, so that its errors are told apart from Dask's.

    The object is closed once: by its driver, or when that has been gone for long (``heterps.orphans``).
    """

    def __init__(self, kind: Callable[..., Any], *args: Any) -> None:
        self.token = uuid.uuid4().hex
        self._object: Any = told(f"making {kind.__name__}", kind, *args)
        self._kind = type(self._object).__name__
        with suppress(ValueError):  # outside of a worker nobody holds it but the caller
            LEASES.begin(self, get_worker(), self.orphaned)

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the object."""
        if self._object is None:
            raise ClusterError(f"{self._kind} was freed: its driver closed it, or seemed to be gone")
        if method == "close":
            LEASES.over(self)
            found, self._object = self._object, None  # its tables must not wait until Dask has forgotten the actor
            return told(f"{self._kind}.close", found.close)
        return told(f"{self._kind}.{method}", getattr(self._object, method), *args)

    @property
    def occupant(self) -> Any:
        """The object; None once it was freed or given to another driver."""
        return self._object

    def give(self, to: str) -> Any:
        """Let another driver have the object, whose own is gone."""
        LEASES.over(self)
        found, self._object = self._object, None
        if found is None:
            raise ClusterError(f"what a driver left on {worker_place(get_worker())} was freed, or taken by another one")
        _note_fate(found, f"taken over by {to}")
        return found

    def orphaned(self) -> None:
        """Free the object, whose driver is gone."""
        if self._object is not None:
            _log.warning("the driver of a %s is gone: freeing what it left behind", self._kind)
            _note_fate(self._object, "freed, for the driver was not heard of")
            self.call("close")


def _note_fate(actor: Any, fate: str) -> None:
    run = getattr(actor, "run", "")
    _FATES[run] = fate
    while len(_FATES) > _MOST_FATES:
        del _FATES[next(iter(_FATES))]


def fate_of(run: str) -> str:
    """Say what became of a run's actors in this process; nothing if they are as they were."""
    return _FATES.get(run, "")


def free_left(run: str, dask_worker: Any = None) -> None:
    """Free what else a run has here whose driver is gone: attempts that nobody waits for."""
    for seat, orphaned in LEASES.of(dask_worker):
        if orphaned and getattr(seat.occupant, "run", None) == run:
            seat.orphaned()


class Remote:
    """Makes an actor on one worker and calls it.

    Parameters
    ----------
    client
        Client of the cluster.
    worker
        Address of the worker.
    kind, *args
        What to make there.
    unwanted
        Once set, nobody waits for it any more.
    """

    def __init__(
        self, client: Client, worker: str, kind: Callable[..., Any], *args: Any, unwanted: threading.Event | None = None
    ) -> None:
        self.worker, self._client, self._name = worker, client, kind.__name__
        self._unwanted = unwanted or threading.Event()
        self._heard = 0.0  # when the scheduler last heard of the worker, as it said last
        self._making_s, self._looked = 0.0, monotonic()  # how long it could have been made, up to the last look
        # Dask forgets an actor with its last future. Arrays given as a dataset travel with the actor, once a worker, on
        # purpose: data scattered to one worker would be lost with it.
        with _QUIET, dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            self._future = submitted(
                client,
                lambda reason: self._lost("being made", reason),
                Seat,
                kind,
                *args,
                actor=True,
                workers=[worker],
                allow_other_workers=False,
                key=f"heterps-{kind.__name__}-{uuid.uuid4().hex[:8]}",
            )
        self._actor = self._made()

    def _made(self) -> Any:
        try:
            return self._wait(self._future, "being made", patient=True)  # a worker may compile or read first
        except BaseException:
            self.release()
            raise

    def start(self, method: str, *args: Any) -> Any:
        """Call without waiting; :meth:`finish` takes the answer."""
        # An actor takes the client that is current when it is called.
        with asking(lambda reason: self._lost(method, reason)), self._client.as_current():
            return actor_call(self._client, self._actor, "call", method, *args)

    def finish(self, pending: Any, method: str = "call", *, patient: bool = False) -> Any:
        """Wait for the answer of a call that was started.

        The limit is ``heterps.timeouts.call``; a patient caller lets work take as long as it takes, and the limit is
        for the silence of the worker.
        """
        return self._wait(pending, method, patient)

    def call(self, method: str, *args: Any, patient: bool = False) -> Any:
        """Call and wait."""
        return self.finish(self.start(method, *args), method, patient=patient)

    def _wait(self, pending: Any, method: str, patient: bool) -> Any:
        async def ask() -> Any:
            return await pending

        return answer(
            self._client,
            ask,
            lambda reason: self._lost(method, reason),
            settings().call_s,
            seen=lambda: self._seen(pending, method),
            patient=patient,
        )

    def _seen(self, pending: Any, method: str) -> float:
        """Return when the scheduler last heard of the worker; raise if one of them, or this object, is gone.

        A scheduler that only does not answer says nothing about the worker.
        """
        if self._unwanted.is_set():
            raise self._lost(method, "nobody waits for it any more")
        try:
            worker = identity_of(self._client)["workers"].get(self.worker)
        except ClusterError as error:
            if self._client.status == "running":
                return self._heard
            raise self._lost(method, str(error)) from error
        if worker is None:
            raise self._lost(method, "the worker is gone")
        given_up = () if pending is self._future else ("cancelled", "error")  # while being made they are the answer
        if self._future.status in ("lost", *given_up):
            raise self._lost(method, f"Dask says it is {self._future.status}")
        if pending is self._future:
            self._check_making(paused=worker.get("status") == "paused")
        self._heard = float(worker["last_seen"])
        return self._heard

    def _check_making(self, paused: bool) -> None:
        """Raise if it could have been made for too long; a worker that Dask has paused begins nothing."""
        now, before = monotonic(), self._looked
        self._making_s += 0.0 if paused else min(now - before, _STEP_S)
        self._looked = now
        if self._making_s > settings().make_s:
            raise self._lost("being made", f"not made within {settings().make_s:g} s")

    def _lost(self, method: str, reason: str) -> ClusterError:
        return ClusterError(f"{self._name} on worker {self.worker} did not answer to {method}: {reason}")

    def close(self) -> None:
        """Let it end its work, then let go of it; a worker that is gone needs neither."""
        with suppress(Exception):
            self.call("close")
        self.release()

    def release(self) -> None:
        """Let go of it: Dask forgets an actor that nobody holds, and what we call it by holds it as well."""
        held: list[Any] = [self._future, getattr(getattr(self, "_actor", None), "_future", None)]
        for future in filter(None, held):
            with suppress(Exception):
                future.release()
