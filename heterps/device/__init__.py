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
from heterps.device.raw import CUDA_OPTIONS, RawModule, raw_module, set_raw_loader

__all__ = [
    "CUDA_OPTIONS",
    "RawModule",
    "array_namespace",
    "gpu_available",
    "is_host",
    "namespace",
    "raw_module",
    "register_namespace",
    "set_raw_loader",
    "synchronize",
    "to_device",
    "to_host",
]
