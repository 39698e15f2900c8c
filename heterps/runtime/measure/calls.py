"""What a call between workers takes: over a socket of this machine, or within one process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heterps.hardware import Pool
from heterps.planner.costs.profile import Rates
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.peer import DirectPeer, Peer, SocketPeer
from heterps.runtime.wire.service import Listener, Method

__all__ = ["with_calls"]

Bytes = npt.NDArray[np.uint8]

_CALLED_BYTES = 2 << 20  # about the rows of one batch
_BUFFERS = 8  # that take turns: what a worker sends is not in its caches any more
_SECONDS = 0.3


class _Echo:
    """A service that gives back what it is sent: rows that come and gradients that go, in one call."""

    @property
    def methods(self) -> dict[str, Method]:
        return {"echo": lambda message: Message({}, message.arrays)}


def with_calls(rates: Rates, pool: Pool, sockets: bool) -> Rates:
    """Return rates with what a call, and a byte, take of a worker's own time."""
    return _over_sockets(rates) if sockets else _by_reference(rates, pool)


def _over_sockets(rates: Rates) -> Rates:
    listener = Listener(_Echo())
    peer = SocketPeer(listener.address)
    small, large = (itertools.cycle(_filled(nbytes)) for nbytes in (1, _CALLED_BYTES))
    try:
        call_cpu, call_wall = _seconds(lambda: _kept(peer, next(small)))
        large_cpu, large_wall = _seconds(lambda: _kept(peer, next(large)))
    finally:
        peer.close()
        listener.close()
    moved = 2 * _CALLED_BYTES  # there and back; both ends are in this process
    return replace(
        rates,
        call_s=call_cpu / 2,
        wire_s_per_byte=max(0.0, large_cpu - call_cpu) / 2 / moved,
        network_bytes_per_s=moved / max(large_wall - call_wall, 1e-6),
    )


def _by_reference(rates: Rates, pool: Pool) -> Rates:
    """Within one process: the method itself; what crosses is copied once, half of which either side is charged."""
    peer, small, large = DirectPeer(_Echo()), np.ones(1, np.uint8), itertools.cycle(_filled(_CALLED_BYTES))
    call_s, _ = _seconds(lambda: peer.call("echo", [small]))
    copy_s, copy_wall = _seconds(lambda: next(large).copy())
    return replace(
        rates,
        call_s=call_s,
        wire_s_per_byte=copy_s / 2 / _CALLED_BYTES,
        network_bytes_per_s=max(_CALLED_BYTES / copy_wall, pool.device.memory_bytes_per_s),
    )


def _filled(nbytes: int) -> list[Bytes]:
    """Buffers with something in them: all pages of one that was never written to are the same page of zeros."""
    return [np.full(nbytes, number + 1, np.uint8) for number in range(_BUFFERS)]


def _kept(peer: Peer, sent: Bytes) -> None:
    """Call, and copy the answer out of the receive buffer as a puller does."""
    peer.call("echo", [sent]).arrays[0].copy()


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds of this process, and wall seconds, per call."""
    call()
    calls, cpu, wall = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - wall < _SECONDS:
        call()
        calls += 1
    return (time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls
