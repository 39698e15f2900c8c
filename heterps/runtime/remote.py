"""An object on a worker: a Dask actor that lives as long as this handle, every call with a time limit."""

from __future__ import annotations

import uuid
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

import dask
from distributed import CancelledError, Client
from distributed.comm import CommClosedError

from heterps.errors import ClusterError
from heterps.runtime.ask import ask_scheduler
from heterps.runtime.config import settings

__all__ = ["Remote"]

_LOOK_S = 0.5
_MAKE_S = 60.0  # at least, for what is made: a worker may first have to import everything


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
            return self._wait(self._future, "being made", max(_MAKE_S, settings().call_s))
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
        """Wait for the answer of a call that was started; a patient caller has no time limit."""
        return self._wait(pending, method, inf if patient else settings().call_s)

    def call(self, method: str, *args: Any) -> Any:
        """Call and wait."""
        return self.finish(self.start(method, *args), method)

    def _wait(self, pending: Any, method: str, limit_s: float) -> Any:
        """Wait, looking now and then whether the other side is still there: Dask would let a call to one that is gone
        wait for ever.
        """
        until = monotonic() + limit_s
        while True:
            try:
                with self._client.as_current():
                    return pending.result(timeout=_LOOK_S)
            except TimeoutError as error:
                late = f"no answer within {limit_s:g} s" if pending.done() or monotonic() > until else ""
                if reason := self._gone() or late:
                    raise self._lost(method, reason) from error
            except (CancelledError, CommClosedError, OSError, RuntimeError) as error:
                raise self._lost(method, str(error)) from error

    def _gone(self) -> str:
        """Say what is gone: the scheduler, this object, its worker; empty if all are there."""
        if self._client.status != "running":
            return "the scheduler is gone"
        if self._future.status not in ("pending", "finished"):
            return f"Dask has {self._future.status} it"
        try:
            there = ask_scheduler(self._client)["workers"]
        except ClusterError as error:
            return str(error)
        return "" if self.worker in there else "the worker is gone"

    def _lost(self, method: str, reason: str) -> ClusterError:
        return ClusterError(f"{self._name} on worker {self.worker} did not answer to {method}: {reason}")

    def close(self) -> None:
        """Let it end its work, then let go of it; a worker that is gone needs neither."""
        with suppress(Exception):
            self.call("close")
        with suppress(Exception):
            self._future.release()
