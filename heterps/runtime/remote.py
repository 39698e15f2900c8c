"""An object on a worker: a Dask actor that lives as long as this handle, every call with a time limit."""

from __future__ import annotations

import uuid
from contextlib import suppress
from time import monotonic
from typing import Any

import dask
from distributed import CancelledError, Client
from distributed.comm import CommClosedError

from heterps.errors import ClusterError
from heterps.runtime.config import settings
from heterps.runtime.identity import identity_of

__all__ = ["Remote"]

_LOOK_S = 0.5


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
    """

    def __init__(self, client: Client, worker: str, kind: type, *args: Any) -> None:
        self.worker, self._client, self._name = worker, client, kind.__name__
        # Dask forgets an actor with its last future. Arrays given as a dataset travel with the actor, once a worker, on
        # purpose: data scattered to one worker would be lost with it.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            self._future = client.submit(
                kind,
                *args,
                actor=True,
                workers=[worker],
                allow_other_workers=False,
                key=f"heterps-{kind.__name__}-{uuid.uuid4().hex[:8]}",
                pure=False,
            )
        self._actor = self._made()

    def _made(self) -> Any:
        try:
            return self._wait(self._future, "being made", patient=True)  # a worker may compile or read first
        except ClusterError:
            self._future.release()
            raise

    def start(self, method: str, *args: Any) -> Any:
        """Call without waiting; :meth:`finish` takes the answer."""
        try:
            with self._client.as_current():  # an actor takes the client that is current when it is called
                return getattr(self._actor, method)(*args)
        except RuntimeError as error:  # Dask knows already that the worker is gone
            raise self._lost(method, str(error)) from error

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
        """Wait, looking now and then whether the other side is still there: Dask would let a call to one that is gone
        wait for ever.
        """
        limit_s, since, seen = settings().call_s, monotonic(), None
        while True:
            answered = pending.done()  # what came back may still have to be fetched, or be a TimeoutError of its own
            try:
                with self._client.as_current():
                    return pending.result(timeout=limit_s if answered else _LOOK_S)
            except TimeoutError as error:
                seen, before = self._seen(method), seen
                if patient and seen != before:
                    since = monotonic()
                if answered or monotonic() - since > limit_s:
                    raise self._lost(method, f"{'silence' if patient else 'no answer'} for {limit_s:g} s") from error
            except (CancelledError, CommClosedError, OSError, RuntimeError) as error:
                raise self._lost(method, str(error)) from error

    def _seen(self, method: str) -> float:
        """Return when the scheduler last heard of the worker; raise if one of them, or this object, is gone."""
        try:
            worker = identity_of(self._client)["workers"].get(self.worker)
        except ClusterError as error:
            raise self._lost(method, str(error)) from error
        if worker is None:
            raise self._lost(method, "the worker is gone")
        if self._future.status not in ("pending", "finished"):
            raise self._lost(method, f"Dask says it is {self._future.status}")
        return float(worker["last_seen"])

    def _lost(self, method: str, reason: str) -> ClusterError:
        return ClusterError(f"{self._name} on worker {self.worker} did not answer to {method}: {reason}")

    def close(self) -> None:
        """Let it end its work, then let go of it; a worker that is gone needs neither."""
        with suppress(Exception):
            self.call("close")
        with suppress(Exception):
            self._future.release()
