"""How much memory a device has left."""

from __future__ import annotations

from heterps.device.arrays import Namespace

__all__ = ["free_memory"]


def free_memory(xp: Namespace) -> int | None:
    """Return the bytes that can still be allocated on a device, None where it does not say.

    CuPy keeps freed memory in its pool; what the pool has unused counts as free.
    """
    if getattr(xp, "__name__", "") != "cupy":
        return None
    free, _ = xp.cuda.runtime.memGetInfo()
    return int(free) + int(xp.get_default_memory_pool().free_bytes())
