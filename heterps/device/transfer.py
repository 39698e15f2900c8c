"""Batches on their way to a device: pinned memory, a stream of their own, device buffers that are reused.

The copy of the next batch runs beside the computation of this one. On a CPU, and on the strict stand-in, there is
nothing to overlap and arrays are handed over as they are. Not run on a GPU yet.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, to_device

__all__ = ["Transfer"]


class Transfer:
    """Copies named host arrays to a device.

    Parameters
    ----------
    xp
        Array library of the device.
    depth
        Batches on the device at once: buffers of a name are reused after this many.
    """

    def __init__(self, xp: Namespace, depth: int = 2) -> None:
        self._xp, self._depth = xp, depth
        self._turn = 0
        self._cuda = getattr(xp, "__name__", "") == "cupy"
        self._stream = xp.cuda.Stream(non_blocking=True) if self._cuda else None
        self._rings: dict[tuple[str, int], tuple[Array, Any]] = {}
        self._done: list[Any] = [None] * depth

    def send(self, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Array]:
        """Start copying one batch; what comes back may be computed with at once, on the current stream.

        The current stream waits for the copies, the host does not. The buffers are overwritten ``depth`` calls later,
        and not before the computation that was queued meanwhile is done.
        """
        if not self._cuda:
            return {name: to_device(array, self._xp) for name, array in arrays.items()}
        turn, self._turn = self._turn, (self._turn + 1) % self._depth
        current, cuda = self._xp.cuda.get_current_stream(), self._xp.cuda
        self._wait_for_readers(turn, current)
        sent = {name: self._copy(name, turn, array) for name, array in arrays.items()}
        arrived = cuda.Event(disable_timing=True)
        arrived.record(self._stream)
        current.wait_event(arrived)
        return sent

    def _wait_for_readers(self, turn: int, current: Any) -> None:
        """Let the copy stream wait until all computation queued so far is done; it read this turn's old contents."""
        queued = self._xp.cuda.Event(disable_timing=True)
        queued.record(current)
        self._stream.wait_event(queued)  # type: ignore[union-attr]
        if self._done[turn] is not None:
            self._done[turn].synchronize()  # the pinned memory of this turn has been read by the device
        self._done[turn] = None

    def _copy(self, name: str, turn: int, array: npt.NDArray[Any]) -> Array:
        device, pinned = self._room(name, turn, array)
        np.copyto(pinned, array)
        device.set(pinned, stream=self._stream)
        event = self._xp.cuda.Event(disable_timing=True)
        event.record(self._stream)
        self._done[turn] = event
        return device

    def _room(self, name: str, turn: int, array: npt.NDArray[Any]) -> tuple[Array, Any]:
        """Device buffer and pinned twin of the array's shape; made anew when the shape grows."""
        cupyx = importlib.import_module("cupyx")
        known = self._rings.get((name, turn))
        if known is None or known[0].dtype != array.dtype or known[0].size < array.size:
            flat = (self._xp.empty(array.size, array.dtype), cupyx.empty_pinned(array.size, array.dtype))
            known = self._rings[name, turn] = flat
        device, pinned = known
        return device[: array.size].reshape(array.shape), pinned[: array.size].reshape(array.shape)
