"""The ways from an attempt to a shard host: the object itself, or a thread that waits on a socket."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from time import sleep
from typing import Any, Protocol, runtime_checkable

from heterps.protocol.words.messages import Push, Reply, Request
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.payload import Pulled, PushedGradients, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.wire.packing import pack_read, pack_request, pack_step, unpack_outcome, unpack_reply
from heterps.runtime.wire.peer import DirectPeer, Peer, PeerLost, SocketPeer, connect
from heterps.runtime.wire.service import Address, local_service

__all__ = [
    "DirectLink",
    "HostLink",
    "HostService",
    "SocketLink",
    "StageLink",
    "StepService",
    "call_stage",
    "link_to_host",
    "link_to_stage",
]

Done = Callable[[Reply | None, Pulled | None], None]
_RETRY_S = 0.2  # between tries at a host that does not answer: the run needs time to notice and replace it


@runtime_checkable
class HostService(Protocol):
    """A shard host, as a caller in its own process sees it."""

    def request(self, request: Request, payload: Wanted | PushedGradients | None, done: Done) -> None:
        """Take a request; ``done`` is called with the answer, now or later."""

    def read(self, wanted: Wanted) -> Pulled:
        """Read rows and parameters without training."""


@runtime_checkable
class StepService(Protocol):
    """A stage, as a caller in its own process sees it."""

    def step(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        """Run the stage, and those behind it, on one batch."""


class HostLink(Protocol):
    """The way to one copy of a shard host."""

    def send(self, request: Request, payload: Wanted | PushedGradients | None, done: Done) -> None:
        """Deliver a request; ``done`` takes the answer, ``done(None, None)`` says that there was none in time."""

    def read(self, wanted: Wanted) -> Pulled:
        """Read rows and parameters without training, and wait for them."""

    def close(self) -> None:
        """Let go."""


class DirectLink:
    """A shard host in this process: no copy, no thread."""

    def __init__(self, host: HostService) -> None:
        self.host = host

    def send(self, request: Request, payload: Wanted | PushedGradients | None, done: Done) -> None:
        """Call it."""
        self.host.request(request, payload, done)

    def read(self, wanted: Wanted) -> Pulled:
        """Call it."""
        return self.host.read(wanted)

    def close(self) -> None:
        """Nothing is held."""


class SocketLink:
    """A shard host in another process. Requests go out one after another from a thread of the link's own.

    ``phases`` takes the time of laying messages out and of copying what came back; not that of waiting for it, while
    the caller computes or counts its own waiting.
    """

    def __init__(self, peer: Peer, phases: Phases | None = None) -> None:
        self._peer, self._phases = peer, phases or Phases()
        self._todo: SimpleQueue[tuple[Any, Any, Done] | None] = SimpleQueue()
        self._closed = False
        threading.Thread(target=self._work, name="heterps-link", daemon=True).start()

    def send(self, request: Request, payload: Wanted | PushedGradients | None, done: Done) -> None:
        """Queue a request."""
        self._todo.put((request, payload, done))

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            request, payload, done = item
            try:
                done(*self._ask(request, payload))
            except PeerLost:
                if self._closed:
                    break
                sleep(_RETRY_S)
                done(None, None)
        self._peer.close()

    def _ask(self, request: Request, payload: Wanted | PushedGradients | None) -> tuple[Reply | None, Pulled | None]:
        phase = "push" if isinstance(request, Push) else "pull"
        with self._phases(phase):
            message = pack_request(request, payload)
        reply = self._peer.call("request", message.arrays, **message.head)
        if "wait" in reply.head:  # a Sync pull that is not due yet: the client asks again, unless it has other plans
            return None, None
        with self._phases(phase):
            return unpack_reply(reply, payload if isinstance(payload, Wanted) else None)

    def read(self, wanted: Wanted) -> Pulled:
        """Ask on a connection of one's own thread."""
        message = pack_read(wanted)
        pulled = unpack_reply(self._peer.call("read", message.arrays, **message.head), wanted)[1]
        assert pulled is not None
        return pulled

    def close(self) -> None:
        """End the thread once it is done with what it does now."""
        self._closed = True
        self._todo.put(None)


def call_stage(peer: Peer, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
    """Run a stage and wait for it; in the same process without laying anything out."""
    if isinstance(peer, DirectPeer) and isinstance(peer.service, StepService):
        return peer.service.step(seed, feeds)
    message = pack_step(seed, feeds)
    return unpack_outcome(peer.call("step", message.arrays, **message.head))


class StageLink:
    """The way to one stage worker. Batches go out one after another from a thread of the link's own."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._todo: SimpleQueue[tuple[int, Any, Any] | None] = SimpleQueue()
        self._closed = False
        threading.Thread(target=self._work, name="heterps-stage-link", daemon=True).start()

    def step(self, seed: int, feeds: Mapping[str, Any], done: Callable[[StageOutcome | None], None]) -> None:
        """Queue a batch; ``done`` takes the outcome, ``done(None)`` says that the stage worker does not answer."""
        self._todo.put((seed, feeds, done))

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            seed, feeds, done = item
            try:
                outcome = call_stage(self._peer, seed, feeds)
            except PeerLost:
                sleep(_RETRY_S)
                done(None)
            except Exception:
                if not self._closed:  # else the tables are gone, and nobody waits for the batch
                    raise
            else:
                done(outcome)
        self._peer.close()

    def close(self) -> None:
        """End the thread once it is done with what it does now."""
        self._closed = True
        self._todo.put(None)


def link_to_host(address: Address, tls: ssl.SSLContext | None = None, phases: Phases | None = None) -> HostLink:
    """Take the nearest way to a shard host."""
    service = local_service(address)
    return DirectLink(service) if isinstance(service, HostService) else SocketLink(SocketPeer(address, tls=tls), phases)


def link_to_stage(address: Address, tls: ssl.SSLContext | None = None) -> StageLink:
    """Take the nearest way to a stage worker."""
    return StageLink(connect(address, tls=tls))
