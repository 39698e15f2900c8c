"""The ways from one worker to the services of another: the object itself, or a thread that waits on a socket.

Links are made here and nowhere else. What a call raises there is raised here, or handed to whoever waits for the
answer; a link outlives it.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable, Mapping, Sequence
from time import sleep
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from heterps.protocol.words.messages import Push, Reply, Request
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.own_threads import Failed
from heterps.runtime.wire.courier import Courier
from heterps.runtime.wire.packing import (
    pack_read,
    pack_request,
    pack_rows,
    pack_step,
    unpack_dense,
    unpack_outcome,
    unpack_reply,
    unpack_rows,
)
from heterps.runtime.wire.peer import DirectPeer, Peer, PeerLost, SocketPeer, connect
from heterps.runtime.wire.service import Address, local_service

__all__ = [
    "DirectLink",
    "HostLink",
    "HostService",
    "Payload",
    "SocketLink",
    "StageLink",
    "StepService",
    "link_to_host",
    "link_to_member",
    "link_to_stage",
]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
Payload = Wanted | PushedGradients | None
Done = Callable[[Reply | None, Pulled | Refreshed | None], None]
_AT_ONCE = 3  # batches that one attempt has at a stage worker: one copied there, one computing, one on its way back
_RETRY_S = 0.2  # between tries at a host that does not answer: the run needs time to notice and replace it


@runtime_checkable
class RequestService(Protocol):
    """Somebody who holds parameters, as a lane in its own process sees it."""

    def request(self, request: Request, payload: Payload, done: Done) -> None:
        """Take a request; ``done`` is called with the answer, now or later."""


@runtime_checkable
class HostService(RequestService, Protocol):
    """A shard host, as a caller in its own process sees it."""

    def read(self, wanted: Wanted) -> Pulled:
        """Read rows and parameters without training."""

    def dense(self, known: str | None = None) -> tuple[str, F32 | None]:
        """Return the dense parameters and a mark of their state; none if that is the mark the caller knows."""

    def rows(self, seed: int, ids: Mapping[str, U64]) -> Mapping[str, Any]:
        """Stage holder: return the rows that were lent to a batch, where they are."""


@runtime_checkable
class StepService(Protocol):
    """A stage, as a caller in its own process sees it."""

    def step(self, seed: int, feeds: Mapping[str, Any], term: int | None = None) -> StageOutcome:
        """Run the stage, and those behind it, on one batch."""


class HostLink(Protocol):
    """The way to one copy of a shard host."""

    @property
    def is_far(self) -> bool:
        """Whether answers travel, and come while the caller does something else."""

    def send(self, request: Request, payload: Payload, done: Done, failed: Failed) -> None:
        """Deliver a request.

        ``done`` takes the answer, ``done(None, None)`` says that there was none in time; ``failed`` takes what the
        host raised, unless it is raised here.
        """

    def read(self, wanted: Wanted) -> Pulled:
        """Read rows and parameters without training, and wait for them."""

    def dense(self, known: str | None = None) -> tuple[str, F32 | None]:
        """Read the dense parameters and wait for them; valid until the next call but one."""

    def rows(self, seed: int, ids: Mapping[str, U64]) -> Mapping[str, Any]:
        """Stage holder: read the rows that were lent to a batch, by group; valid until the next call but one."""

    def close(self) -> None:
        """Let go."""


class DirectLink:
    """A shard host in this process: no copy, no thread."""

    is_far = False

    def __init__(self, host: HostService) -> None:
        self.host = host  # the one that the link's address named when the link was made

    def send(self, request: Request, payload: Payload, done: Done, failed: Failed) -> None:
        """Call it."""
        self.host.request(request, payload, done)

    def read(self, wanted: Wanted) -> Pulled:
        """Call it."""
        return self.host.read(wanted)

    def dense(self, known: str | None = None) -> tuple[str, F32 | None]:
        """Call it."""
        return self.host.dense(known)

    def rows(self, seed: int, ids: Mapping[str, U64]) -> Mapping[str, Any]:
        """Call it."""
        return self.host.rows(seed, ids)

    def close(self) -> None:
        """Nothing is held."""


class _HostLane:
    """One connection to a host, which is opened anew after it was lost, and the thread that calls through it."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer, self.courier = peer, Courier(name, peer.close)


class SocketLink:
    """A shard host in another process. Requests go out one after another from a thread of the link's own.

    ``pushes`` is the same host once more, over another connection and from another thread: then rows that are asked for
    do not wait until gradients have arrived. Pushes stay in their order, but a pull may overtake them
    (:attr:`~heterps.protocol.words.modes.Mode.any_order`).

    ``phases`` takes the time of laying messages out and of copying what came back; not that of waiting for it, while
    the caller computes or counts its own waiting.
    """

    is_far = True

    def __init__(
        self, peer: Peer, phases: Phases | None = None, half: bool = False, pushes: Peer | None = None
    ) -> None:
        self._half = half  # whether rows, parameters and gradients of training travel as float16
        self._phases = phases or Phases()  # of the caller's bench
        self._lane = _HostLane(peer, "link")
        self._push_lane = self._lane if pushes is None else _HostLane(pushes, "push-link")

    def send(self, request: Request, payload: Payload, done: Done, failed: Failed) -> None:
        """Queue a request."""
        lane = self._push_lane if isinstance(request, Push) else self._lane

        def errand() -> None:
            try:
                answer = self._ask(lane.peer, request, payload)
            except PeerLost:
                if lane.courier.closed:
                    return
                sleep(_RETRY_S)
                answer = None, None
            done(*answer)

        lane.courier.send(errand, failed)

    def _ask(self, peer: Peer, request: Request, payload: Payload) -> tuple[Reply | None, Pulled | Refreshed | None]:
        phase = "push" if isinstance(request, Push) else "pull"
        with self._phases(phase):
            message = pack_request(request, payload, self._half)
        reply = peer.call("request", message.arrays, **message.head)
        if "wait" in reply.head:  # a Sync pull that is not due yet: the client asks again, unless it has other plans
            return None, None
        with self._phases(phase):
            return unpack_reply(reply, payload if isinstance(payload, Wanted) else None)

    def read(self, wanted: Wanted) -> Pulled:
        """Ask in the calling thread."""
        message = pack_read(wanted)
        pulled = unpack_reply(self._lane.peer.call("read", message.arrays, **message.head), wanted)[1]
        assert isinstance(pulled, Pulled)
        return pulled

    def dense(self, known: str | None = None) -> tuple[str, F32 | None]:
        """Ask in the calling thread."""
        return unpack_dense(self._lane.peer.call("dense", known=known))

    def rows(self, seed: int, ids: Mapping[str, U64]) -> Mapping[str, Any]:
        """Ask in the calling thread."""
        message = pack_rows(ids, seed=seed)
        return unpack_rows(self._lane.peer.call("lent", message.arrays, **message.head))

    def close(self) -> None:
        """End the threads once they are done with what they do now."""
        for lane in {self._lane, self._push_lane}:
            lane.courier.close()


class StageLink:
    """The way to one stage worker: threads that each carry one batch after another, a few batches at once.

    A stage on a device copies one batch while it computes another; with one batch at a time it would wait for each.

    Parameters
    ----------
    peers
        The stage worker, once for each batch that may be there at once.
    """

    def __init__(self, peers: Sequence[Peer]) -> None:
        self._lanes = [_StageLane(peer) for peer in peers]
        self._turn = itertools.count()

    def step(
        self,
        seed: int,
        feeds: Mapping[str, Any],
        done: Callable[[StageOutcome | None], None],
        failed: Failed,
        term: int | None = None,
    ) -> None:
        """Queue a batch, which was granted under a term of the group that all-reduces, where there is one.

        ``done`` takes the outcome, ``done(None)`` says that the stage worker, or whom it needs, does not answer;
        ``failed`` takes what the stage raised.
        """
        self._lanes[next(self._turn) % len(self._lanes)].step(seed, feeds, done, failed, term)

    def call(self, seed: int, feeds: Mapping[str, Any]) -> StageOutcome:
        """Run the stage in the calling thread and wait for it; in the same process without laying anything out."""
        return self._lanes[0].call(seed, feeds)

    def close(self) -> None:
        """End the threads once they are done with what they do now."""
        for lane in self._lanes:
            lane.close()


class _StageLane:
    """One connection and its thread."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer  # opens its connection with the first call, and anew after one was lost
        self._courier = Courier("stage-link", peer.close)

    def step(
        self,
        seed: int,
        feeds: Mapping[str, Any],
        done: Callable[[StageOutcome | None], None],
        failed: Failed,
        term: int | None,
    ) -> None:
        def errand() -> None:
            try:
                outcome = self.call(seed, feeds, term)
            except PeerLost:
                if self._courier.closed:
                    return
                sleep(_RETRY_S)
                outcome = None
            done(outcome)

        self._courier.send(errand, failed)

    def call(self, seed: int, feeds: Mapping[str, Any], term: int | None = None) -> StageOutcome:
        if isinstance(self._peer, DirectPeer) and isinstance(self._peer.service, StepService):
            return self._peer.service.step(seed, feeds, term)
        message = pack_step(seed, feeds, term)
        return unpack_outcome(self._peer.call("step", message.arrays, **message.head))

    def close(self) -> None:
        self._courier.close()


def link_to_host(
    address: Address,
    tls: ssl.SSLContext | None = None,
    phases: Phases | None = None,
    half: bool = False,
    apart: bool = False,
) -> HostLink:
    """Take the nearest way to a shard host; ``apart``: one for pushes and one for everything else."""
    service = local_service(address)
    near = service if isinstance(service, HostService) else None
    pushes = SocketPeer(address, tls=tls) if apart else None  # connects with its first call
    return SocketLink(SocketPeer(address, tls=tls), phases, half, pushes) if near is None else DirectLink(near)


def link_to_member(address: Address, tls: ssl.SSLContext | None = None, phases: Phases | None = None) -> HostLink:
    """Take the nearest way to a member of an all-reduce group on a stage worker, which takes requests only."""
    service: Any = local_service(address)
    near = isinstance(service, RequestService)
    return DirectLink(cast(HostService, service)) if near else SocketLink(SocketPeer(address, tls=tls), phases)


def link_to_stage(address: Address, tls: ssl.SSLContext | None = None) -> StageLink:
    """Take the nearest way to a stage worker."""
    return StageLink([connect(address, tls=tls) for _ in range(_AT_ONCE)])
