"""Sums over the GPUs of several workers: NCCL moves bytes, and one kernel of ours adds lanes in their order.

NCCL's own sum adds in whatever order its ring or tree has, which changes with the number of GPUs; so it is an option
that is named for what it is. Not run on a GPU yet, only against a stand-in for ``cupy.cuda.nccl``; no engine uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.errors import HardwareError

__all__ = ["NcclSums", "load_nccl"]


def load_nccl() -> Any:
    """Return ``cupy.cuda.nccl``.

    Raises
    ------
    HardwareError
        Where cupy is not installed, or was built without NCCL.
    """
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise HardwareError(
            f"NCCL cannot be used: {error}. Install cupy with CUDA's libraries (pip install 'heterps[gpu12-ctk]') and "
            "nvidia-nccl-cu12, or let parameters go by their tables (parameters={'*': 'table'})"
        ) from error
    if not getattr(nccl, "available", True):
        raise HardwareError("NCCL cannot be used: this cupy was built without it")
    return nccl


class NcclSums:
    """One GPU's side of a group that adds the gradients of lanes.

    Parameters
    ----------
    rank, ranks
        Which of how many.
    unique_id
        What ``nccl.get_unique_id()`` gave one of them; the same for all.
    lanes
        By lane: the rank that computes it.
    xp, nccl
        The array library and ``cupy.cuda.nccl``.
    stream
        Pointer of the CUDA stream on which all is queued.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        unique_id: Any,
        lanes: Sequence[int],
        *,
        xp: Namespace,
        nccl: Any = None,
        stream: int = 0,
    ) -> None:
        self.rank, self.ranks, self.lanes, self.xp, self._stream = rank, ranks, tuple(lanes), xp, stream
        self._nccl = load_nccl() if nccl is None else nccl
        self._communicator = self._nccl.NcclCommunicator(ranks, unique_id, rank)

    def add(self, gradients: Mapping[int, Array]) -> Array:
        """Return the sum of all lanes, each number added in lane order, on every rank the same bits.

        ``gradients`` are flat float32 of one size, of the lanes that this rank computes.
        """
        size = self._size(gradients)
        share = -(-size // self.ranks)  # equal shares, as an all-gather needs: the last ones may lie beyond the end
        parts = self._scatter(gradients, size, share)
        return self._gather(self._in_order(parts, share), size, share)

    def add_not_repeatable(self, gradients: Mapping[int, Array]) -> Array:
        """Return the sum as ``ncclAllReduce`` makes it: other bits for other numbers of GPUs."""
        total = self._in_order([gradients[lane] for lane in sorted(gradients)], self._size(gradients))
        pointer = _pointer(total)
        nccl = self._nccl
        self._communicator.allReduce(pointer, pointer, total.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self._stream)
        return total

    def _size(self, gradients: Mapping[int, Array]) -> int:
        mine = {lane for lane, rank in enumerate(self.lanes) if rank == self.rank}
        if set(gradients) != mine:
            raise HardwareError(
                f"rank {self.rank} computes lanes {sorted(mine)}, but gave gradients of {sorted(gradients)}"
            )
        sizes = {(gradient.shape, str(gradient.dtype)) for gradient in gradients.values()}
        if len(sizes) != 1 or next(iter(sizes))[1] != "float32":
            raise HardwareError(f"gradients must be flat float32 of one size, got {sorted(map(str, sizes))}")
        return int(next(iter(gradients.values())).size)

    def _scatter(self, gradients: Mapping[int, Array], size: int, share: int) -> list[Array]:
        """Send every owner its share of the lanes here; return the shares of all lanes that this rank adds up."""
        nccl, stream = self._nccl, self._stream
        mine = slice(min(size, self.rank * share), min(size, (self.rank + 1) * share))
        length = mine.stop - mine.start
        parts: list[Array] = []
        nccl.groupStart()
        for lane, source in enumerate(self.lanes):
            if source == self.rank:
                parts.append(gradients[lane][mine])
                for peer in range(self.ranks):
                    theirs = gradients[lane][peer * share : (peer + 1) * share]
                    if peer != self.rank and theirs.size:
                        self._communicator.send(_pointer(theirs), theirs.size, nccl.NCCL_FLOAT32, peer, stream)
            else:
                parts.append(self.xp.empty(length, np.float32))
                if length:
                    self._communicator.recv(_pointer(parts[-1]), length, nccl.NCCL_FLOAT32, source, stream)
        nccl.groupEnd()
        return parts

    def _in_order(self, parts: Sequence[Array], room: int) -> Array:
        """Add one lane after another: elementwise, so each number's sum has the order of the lanes."""
        total = self.xp.zeros(room, np.float32)
        filled = total[: parts[0].size]
        filled[...] = parts[0]
        for part in parts[1:]:
            filled += part
        return total

    def _gather(self, mine: Array, size: int, share: int) -> Array:
        whole = self.xp.empty(share * self.ranks, np.float32)
        nccl = self._nccl
        self._communicator.allGather(_pointer(mine), _pointer(whole), share, nccl.NCCL_FLOAT32, self._stream)
        return whole[:size]


def _pointer(array: Array) -> int:
    """Return the address of an array on its device; one of NumPy's stands in for it in tests."""
    device = getattr(array.data, "ptr", None)
    return int(array.ctypes.data if device is None else device)
