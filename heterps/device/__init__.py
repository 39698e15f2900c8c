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
from heterps.device.raw import CUDA_OPTIONS, CudaModule, RawModule, cuda_sources, cuda_text, raw_module, set_raw_loader
from heterps.device.transfer import Lap, Transfer

__all__ = [
    "CUDA_OPTIONS",
    "CudaModule",
    "Lap",
    "RawModule",
    "Transfer",
    "array_namespace",
    "cuda_sources",
    "cuda_text",
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
