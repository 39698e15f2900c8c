"""What this process can compute on: facts only, no choice is made here."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from heterps.device.arrays import gpu_available, namespace, registered_devices, stand_ins
from heterps.device.memory import free_memory
from heterps.hardware.visible import listed_gpus, visible_gpus

__all__ = ["FoundDevices", "found_devices"]


@dataclass(frozen=True)
class FoundDevices:
    """What a process can compute on; travels between processes.

    Parameters
    ----------
    gpus
        Models of the GPUs that it may use, in the order of their numbers.
    why_no_gpu
        Why there is none; empty where there is one.
    registered
        Names of devices, ``"cpu"`` and ``"gpu"`` among them.
    stand_ins
        Those of them that only behave like a device.
    free_bytes
        Memory that can still be had, by ``"gpu:0"`` or registered name, where that is known.
    """

    gpus: tuple[str, ...] = ()
    why_no_gpu: str = ""
    registered: tuple[str, ...] = ("cpu", "gpu")
    stand_ins: tuple[str, ...] = ()
    free_bytes: Mapping[str, int] = field(default_factory=dict)


def found_devices() -> FoundDevices:
    """Look what this process can compute on."""
    gpus = _visible_gpus() if gpu_available() else ()
    return FoundDevices(gpus, "" if gpus else _why_no_gpu(), registered_devices(), stand_ins(), _free(len(gpus)))


def _free(gpus: int) -> dict[str, int]:
    """Ask each GPU; not run on a GPU yet."""
    found = {}
    for number in range(gpus):
        xp = namespace("gpu")
        with xp.cuda.Device(number):
            found[f"gpu:{number}"] = free_memory(xp)
    return {name: free for name, free in found.items() if free is not None}


def _visible_gpus() -> tuple[str, ...]:
    """Ask CUDA itself: it has read CUDA_VISIBLE_DEVICES, numbers and UUIDs alike. Not run on a GPU yet."""
    runtime = namespace("gpu").cuda.runtime
    names = (runtime.getDeviceProperties(number)["name"] for number in range(runtime.getDeviceCount()))
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)


def _why_no_gpu() -> str:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if importlib.util.find_spec("cupy") is None:
        return "cupy is not installed (install heterps[gpu12] or heterps[gpu13])"
    listed = listed_gpus()
    if listed and not visible_gpus(listed, chosen):
        return f"CUDA_VISIBLE_DEVICES is {chosen!r}, which names none of its {len(listed)} GPUs by number or UUID"
    if not listed:
        return "no NVIDIA driver lists a GPU there"
    return "cupy finds no CUDA device (its CUDA version has to be one that the driver knows)"
