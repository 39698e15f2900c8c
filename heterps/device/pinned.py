"""Pinned memory that arrays are received into: a copy to the device starts from there, without another on the host.

Who receives into a block leaves it alone until the batch that came with it is over.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Namespace, has_streams

__all__ = ["pinned_block", "pinned_memory", "received"]

HostArray = npt.NDArray[Any]

#: Larger blocks are not pinned: pinned memory is there at once, whatever somebody says he will send.
MOST_BYTES = 1 << 28
#: A copy may take with it at most as much again as is wanted of it.
WASTE = 2

_LOCK = threading.Lock()
_BLOCKS: dict[int, weakref.ref[HostArray]] = {}  # by address, as long as somebody has them


def pinned_memory(xp: Namespace, nbytes: int) -> HostArray:
    """Return host memory from which a device of ``xp`` copies by itself; plain memory for one without streams."""
    if not has_streams(xp):
        return np.empty(nbytes, np.uint8)
    return np.frombuffer(xp.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)


def pinned_block(xp: Namespace, nbytes: int) -> HostArray:
    """Return memory to receive arrays into, known to :func:`received`."""
    if not has_streams(xp) or not 0 < nbytes <= MOST_BYTES:
        return np.empty(nbytes, np.uint8)
    block = pinned_memory(xp, nbytes)
    address = _address(block)
    with _LOCK:
        _BLOCKS[address] = weakref.ref(block, lambda gone: _forget(address, gone))
    return block


def received(arrays: Mapping[str, HostArray]) -> tuple[HostArray, dict[str, int]] | None:
    """Return the piece of a block that arrays were received into, and where in it each of these begins.

    None where none was; those that lie elsewhere are not named.
    """
    blocks = [block for ref in list(_BLOCKS.values()) if (block := ref()) is not None]
    for block in blocks:
        start = _address(block)
        found = {name: _address(array) - start for name, array in arrays.items() if _lies_in(array, start, block.size)}
        if found:
            low, high = min(found.values()), max(at + arrays[name].nbytes for name, at in found.items())
            used = sum(arrays[name].nbytes for name in found)
            places = {name: at - low for name, at in found.items()}
            return (block[low:high], places) if high - low <= WASTE * used else None
    return None


def _lies_in(array: HostArray, start: int, size: int) -> bool:
    return array.nbytes > 0 and array.flags.c_contiguous and start <= _address(array) < start + size


def _address(array: HostArray) -> int:
    return int(array.__array_interface__["data"][0])


def _forget(address: int, gone: weakref.ref[HostArray]) -> None:
    with _LOCK:
        if _BLOCKS.get(address) is gone:
            del _BLOCKS[address]
