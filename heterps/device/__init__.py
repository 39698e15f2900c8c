"""Arrays on a device: xp, streams and the strict stand-in for tests. The only importer of cupy."""

from heterps.device.arrays import (
    array_namespace,
    gpu_available,
    is_host,
    namespace,
    register_namespace,
    synchronize,
    to_device,
    to_host,
)

__all__ = [
    "array_namespace",
    "gpu_available",
    "is_host",
    "namespace",
    "register_namespace",
    "synchronize",
    "to_device",
    "to_host",
]
