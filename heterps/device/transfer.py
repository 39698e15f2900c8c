"""Batches on their way to a device and back: one copy up, one down, one wait of the host, beside the computation.

A :class:`Lap` is one batch's turn. Its arrays lie side by side in one piece of pinned memory, into which they may be
received, and in one piece of device memory; results are packed into one piece on the way back. Three streams order the
work: copies up, the caller's current stream, copies down. Two events link them, and a third, recorded behind the copy
down, is the only one the host waits for. When it has come, upload, computation and download of the lap are all over, so
a turn's memory is free as a whole and no stream ever waits for a reader of it. The current stream waits for a copy up
only where its arrays are asked for: what was queued for other batches in the meantime goes on.

With ``depth`` laps open, batch n + 1 is copied up and batch n - 1 down while n computes; a pipeline of three steps
needs three. On a CPU arrays are handed over as they are; a library without streams copies each by itself and waits.
Not run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, has_streams, to_device, to_host
from heterps.device.pinned import pinned_memory, received

__all__ = ["CopyStreams", "Lap", "Layout", "Transfer"]

HostArray = npt.NDArray[Any]
#: Shape and dtype of each named array.
Layout = Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]

#: A piece of pinned memory that a batch was received into, and where in it each of its arrays begins.
Received = tuple[HostArray, dict[str, int]]

#: Bytes to which each array is aligned, what cudaMalloc gives too: any vector load of a kernel may start there.
ALIGNMENT = 256


class CopyStreams(NamedTuple):
    """The streams of copies to and from one device; a CPU has none."""

    up: Any = None
    down: Any = None

    @classmethod
    def of(cls, xp: Namespace) -> CopyStreams:
        """Make two."""
        return cls(_stream(xp), _stream(xp)) if has_streams(xp) else cls()


class Transfer:
    """The way of batches to one device and back.

    Parameters
    ----------
    xp
        Array library of the device.
    depth
        Laps that may be open at once, each with memory of its own.
    streams
        Shared with others whose batches go the same way; by default streams of its own.
    """

    def __init__(self, xp: Namespace, depth: int = 3, streams: CopyStreams | None = None) -> None:
        self.xp = xp
        self._free = [_Turn(xp) for _ in range(depth)]
        self._depth = depth
        self.up, self.down = streams or CopyStreams.of(xp)

    def lap(self, layout: Layout) -> Lap:
        """Open a lap for arrays of these shapes; its ``host`` arrays may then be filled or received into."""
        if not self._free:
            raise RuntimeError(f"all {self._depth} laps are open; collect and release one before the next is opened")
        return Lap(self, self._free.pop(0), layout)

    def send(self, arrays: Mapping[str, HostArray]) -> Lap:
        """Open a lap with these arrays and start it; on a device they are copied first and free when this returns.

        Those that were received into pinned memory (:mod:`~heterps.device.pinned`) are copied up from there, in one
        piece, and must be left alone until the lap is collected or released.
        """
        found = received(arrays) if self.up is not None else None
        there = {} if found is None else found[1]
        lap = self.lap({} if self.xp is np else _layout({n: a for n, a in arrays.items() if n not in there}))
        lap.take(arrays, found)
        lap.upload()
        return lap

    def _release(self, turn: _Turn) -> None:
        self._free.append(turn)


class Lap:
    """One batch's turn: fill ``host``, :meth:`upload`, :meth:`arrive`, compute, :meth:`download`, :meth:`collect`,
    :meth:`release`.

    Attributes
    ----------
    host
        Pinned arrays to be filled before the upload, not to be touched between upload and :meth:`collect`.
    """

    def __init__(self, transfer: Transfer, turn: _Turn, layout: Layout) -> None:
        self._transfer, self._turn = transfer, turn
        self._layout = layout
        self.host: dict[str, HostArray] = turn.sending.host_arrays(layout)
        self._device: dict[str, Array] = {}
        self._received: Received | None = None  # what is copied from where it was received
        self._order: list[str] = list(layout)  # of all arrays
        self._sent: Any = None  # recorded behind the copy up
        self._results: dict[str, HostArray] | None = None
        self._state = "filling"

    def take(self, arrays: Mapping[str, HostArray], found: Received | None) -> None:
        """Fill the pinned arrays; those that were received stay where they are."""
        self._received, self._order = found, list(arrays)
        if self._transfer.xp is np:
            self.host = dict(arrays)
        for name in () if found is None else found[1]:
            self.host[name] = arrays[name]
        for name, array in arrays.items():
            if self.host[name] is not array:
                np.copyto(self.host[name], array)

    def upload(self) -> None:
        """Start the copy; nobody waits for it yet."""
        self._step("filling", "uploaded")
        xp, up = self._transfer.xp, self._transfer.up
        if up is None:
            self._device = dict(self.host) if xp is np else {name: to_device(a, xp) for name, a in self.host.items()}
            return
        device = self._turn.sending.device_arrays(xp, up, self._layout)
        self._turn.sending.start_up(up)
        if self._received is not None:
            device |= self._turn.received.start_up(xp, up, self._received, self.host)
        self._device = {name: device[name] for name in self._order}
        self._sent = _mark(xp, up)

    def arrive(self) -> dict[str, Array]:
        """Let the current stream wait for the copy, the host does not; return the arrays for use on that stream."""
        self._step("uploaded", "arrived")
        if self._sent is not None:
            self._transfer.xp.cuda.get_current_stream().wait_event(self._sent)
        return self._device

    def download(self, results: Mapping[str, Array]) -> None:
        """Start the copy of results that the current stream computes; the host does not wait."""
        self._step("arrived", "downloading")
        xp, down, piece = self._transfer.xp, self._transfer.down, self._turn.receiving
        if down is None:
            self._results = {name: to_host(array) for name, array in results.items()}
            return
        layout = _layout(results)
        self._results = piece.host_arrays(layout)
        fresh = piece.is_fresh
        packed = piece.device_arrays(xp, down, layout)
        if fresh:  # work of the memory's former owner may be queued behind copies down
            xp.cuda.get_current_stream().wait_event(_mark(xp, down))
        for name, array in results.items():
            packed[name][...] = array
        down.wait_event(_mark(xp, xp.cuda.get_current_stream()))
        piece.start_down(down)
        self._turn.done = _mark(xp, down)

    def collect(self) -> dict[str, HostArray]:
        """Wait until the results are there; they are valid until :meth:`release`."""
        self._step("downloading", "collected")
        if self._turn.done is not None:
            self._turn.done.synchronize()
        assert self._results is not None
        return self._results

    def release(self) -> None:
        """Give the turn's memory to the next lap; where a lap ends early, the device is waited for first."""
        if self._state == "released":
            return
        if self._transfer.up is not None and self._state in ("uploaded", "arrived", "downloading"):
            for stream in (self._transfer.up, self._transfer.xp.cuda.get_current_stream(), self._transfer.down):
                stream.synchronize()
        self._state = "released"
        self._turn.done = None
        self._transfer._release(self._turn)

    def __enter__(self) -> Lap:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _step(self, expected: str, after: str) -> None:
        if self._state != expected:
            raise RuntimeError(f"this lap is {self._state}; it has to be {expected} to become {after}")
        self._state = after


class _Turn:
    """Memory of one lap after another: a piece for each direction, and the event behind the last copy."""

    def __init__(self, xp: Namespace) -> None:
        self.sending, self.receiving = _PinnedTwin(xp), _PinnedTwin(xp)
        self.received = _ReceivedTwin()
        self.done: Any = None


class _ReceivedTwin:
    """The twin on the device of what was received into pinned memory; grows, never shrinks."""

    def __init__(self) -> None:
        self._twin: Any = None

    def start_up(
        self, xp: Namespace, stream: Any, found: Received, arrays: Mapping[str, HostArray]
    ) -> dict[str, Array]:
        """Queue the copy of the whole piece; return the arrays in it. Memory as for a :class:`_PinnedTwin`."""
        piece, places = found
        if self._twin is None or self._twin.size < piece.size:
            with stream:
                self._twin = xp.empty(piece.size + piece.size // 4, np.uint8)
        self._twin[: piece.size].set(piece, stream=stream)
        return _views(self._twin, _layout({name: arrays[name] for name in places}), list(places.values()))


class _PinnedTwin:
    """Pinned memory and its twin on the device; both grow, never shrink. Grown only while nobody uses the turn."""

    def __init__(self, xp: Namespace) -> None:
        self._xp = xp
        self._pinned: HostArray = np.empty(0, np.uint8)
        self._twin: Any = None
        self._used = 0

    def host_arrays(self, layout: Layout) -> dict[str, HostArray]:
        """Return the arrays of a layout in pinned memory."""
        places, self._used = _places(layout)
        if self._pinned.size < self._used:
            self._pinned, self._twin = pinned_memory(self._xp, self._used + self._used // 4), None
        return _views(self._pinned, layout, places)

    @property
    def is_fresh(self) -> bool:
        """Whether device memory is yet to be had."""
        return self._twin is None

    def device_arrays(self, xp: Namespace, stream: Any, layout: Layout) -> dict[str, Array]:
        """Return the same arrays on the device.

        Memory comes from the copy stream's own pool: the current stream's pool may hand out what kernels that are
        still queued there read.
        """
        if self._twin is None:
            with stream:
                self._twin = xp.empty(self._pinned.size, np.uint8)
        return _views(self._twin, layout, _places(layout)[0])

    def start_up(self, stream: Any) -> None:
        """Queue the copy to the device."""
        if self._used:
            self._twin[: self._used].set(self._pinned[: self._used], stream=stream)

    def start_down(self, stream: Any) -> None:
        """Queue the copy to the host."""
        if self._used:
            self._twin[: self._used].get(stream=stream, out=self._pinned[: self._used], blocking=False)


def _layout(arrays: Mapping[str, Array]) -> Layout:
    return {name: (array.shape, array.dtype) for name, array in arrays.items()}


def _places(layout: Layout) -> tuple[list[int], int]:
    """Where each array begins, and bytes in all."""
    places, at = [], 0
    for shape, dtype in layout.values():
        places.append(at)
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        at += -(-size // ALIGNMENT) * ALIGNMENT
    return places, at


def _views(memory: Array, layout: Layout, places: list[int]) -> dict[str, Array]:
    out = {}
    for (name, (shape, dtype)), at in zip(layout.items(), places, strict=True):
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        out[name] = memory[at : at + size].view(dtype).reshape(shape)
    return out


def _stream(xp: Namespace) -> Any:
    return xp.cuda.Stream(non_blocking=True)


def _mark(xp: Namespace, stream: Any) -> Any:
    """Record an event behind everything queued on a stream so far."""
    event = xp.cuda.Event(disable_timing=True)
    event.record(stream)
    return event
