"""Arrays on a device: xp, streams and the strict stand-in for tests. The only importer of cupy."""

from heterps.device.arrays import (
    array_namespace,
    gpu_available,
    is_host,
    namespace,
    register_namespace,
    registered_devices,
    stand_ins,
    synchronize,
    to_device,
    to_host,
)
from heterps.device.found import FoundDevices, found_devices
from heterps.device.raw import CUDA_OPTIONS, CudaModule, RawModule, cuda_sources, cuda_text, raw_module, set_raw_loader
from heterps.device.transfer import CopyStreams, Lap, Transfer

__all__ = [
    "CUDA_OPTIONS",
    "CopyStreams",
    "CudaModule",
    "FoundDevices",
    "Lap",
    "RawModule",
    "Transfer",
    "array_namespace",
    "cuda_sources",
    "cuda_text",
    "found_devices",
    "gpu_available",
    "is_host",
    "namespace",
    "raw_module",
    "register_namespace",
    "registered_devices",
    "set_raw_loader",
    "stand_ins",
    "synchronize",
    "to_device",
    "to_host",
]
