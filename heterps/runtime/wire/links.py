"""The ways from an attempt to a shard host: the object itself, or a thread that waits on a socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from time import sleep
from typing import Any, Protocol

from heterps.protocol.words.messages import Push, Reply, Request
from heterps.runtime.batch.payload import Pulled, PushedGradients, Wanted, pack_request, unpack_reply
from heterps.runtime.batch.phases import Phases
from heterps.runtime.wire.peer import DirectPeer, Peer, PeerLost
from heterps.runtime.workers.shard_host import ShardHost
from heterps.runtime.workers.stage import StageOutcome, StageService, pack_step, unpack_outcome

__all__ = ["DirectLink", "HostLink", "SocketLink", "StageLink", "call_stage"]

Done = Callable[[Reply | None, Pulled | None], None]
_RETRY_S = 0.2  # between tries at a host that does not answer: the run needs time to notice and replace it


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

    def __init__(self, host: ShardHost) -> None:
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
        dense = wanted.dense is not None
        reply = self._peer.call("read", list(wanted.ids.values()), groups=list(wanted.ids), dense=dense)
        pulled = unpack_reply(reply, wanted)[1]
        assert pulled is not None
        return pulled

    def close(self) -> None:
        """End the thread once it is done with what it does now."""
        self._closed = True
        self._todo.put(None)


def call_stage(peer: Peer, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
    """Run a stage and wait for it; in the same process without laying anything out."""
    if isinstance(peer, DirectPeer) and isinstance(peer.service, StageService):
        return peer.service.step(seed, feeds)
    head, arrays = pack_step(seed, feeds)
    return unpack_outcome(peer.call("step", arrays, **head))


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
