"""Which array library an array belongs to, and moving arrays between host and device.

A kernel says ``xp = array_namespace(x)`` and names neither NumPy nor CuPy. cupy is imported only when somebody asks for
a GPU where there is a driver, and only ``cupy.cuda.is_available()`` decides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import HardwareError, UnknownKindError
from heterps.own_modules import may_replace

__all__ = [
    "Array",
    "Namespace",
    "Registered",
    "array_namespace",
    "gpu_available",
    "has_streams",
    "is_host",
    "know_arrays",
    "namespace",
    "register_namespace",
    "registered",
    "registered_devices",
    "stand_ins",
    "synchronize",
    "take_over_device",
    "to_device",
    "to_host",
]

Array = Any  # an array of whichever library: the libraries share functions, not a base class
Namespace = Any  # the module (or object) that holds those functions

_OF_TYPE: dict[type, Namespace] = {np.ndarray: np}
_BY_NAME: dict[str, Callable[[], Namespace]] = {}
_STAND_INS: set[str] = set()


def register_namespace(name: str, load: Callable[[], Namespace], *, stand_in: bool = False) -> None:
    """Make a kind of device known under a name.

    Parameters
    ----------
    name
        What :func:`namespace` is asked for.
    load
        Returns an object with NumPy's functions, an ``ndarray`` type, ``asarray`` and ``asnumpy``; called on first use.
    stand_in
        Whether it only behaves like a device: reports then say "emulated".
    """
    if not may_replace(load, _BY_NAME.get(name, load)):
        raise HardwareError(f"device {name!r} is registered already; choose another name")
    take_over_device(Registered(name, load, stand_in))


@dataclass(frozen=True)
class Registered:
    """A device as it was registered."""

    name: str
    load: Callable[[], Namespace]
    stand_in: bool = False


def take_over_device(device: Registered) -> None:
    """Make a device known that came from another process, whatever was known under its name."""
    _BY_NAME[device.name] = device.load
    (_STAND_INS.add if device.stand_in else _STAND_INS.discard)(device.name)
    namespace.cache_clear()


def registered(name: str) -> Registered | None:
    """Return a device as it was registered; None where nobody did."""
    return Registered(name, _BY_NAME[name], name in _STAND_INS) if name in _BY_NAME else None


def registered_devices() -> tuple[str, ...]:
    """Return the names of all devices that are registered, here or not."""
    return tuple(sorted(_BY_NAME))


def stand_ins() -> tuple[str, ...]:
    """Return those of them that only behave like a device."""
    return tuple(sorted(_STAND_INS))


@cache
def namespace(name: str = "auto") -> Namespace:
    """Return the array library of a device: ``"cpu"``, ``"gpu"``, ``"fake"``, or ``"auto"`` (a GPU if there is one)."""
    if name == "auto":
        name = "gpu" if gpu_available() else "cpu"
    if name not in _BY_NAME:
        raise UnknownKindError(f"unknown device {name!r}; known: auto, {', '.join(sorted(_BY_NAME))}")
    return know_arrays(_BY_NAME[name]())


def know_arrays(xp: Namespace) -> Namespace:
    """Let :func:`array_namespace` know the arrays of a library that did not come from :func:`namespace`."""
    _OF_TYPE.setdefault(xp.ndarray, xp)
    return xp


def array_namespace(x: Array) -> Namespace:
    """Return the array library that ``x`` belongs to."""
    xp = _OF_TYPE.get(type(x))
    if xp is not None:
        return xp
    for kind, xp in _OF_TYPE.items():  # subclasses, for example numpy.memmap
        if isinstance(x, kind):
            return xp
    raise TypeError(f"{type(x).__name__} is not an array of a known device; convert it with to_device() first")


def is_host(x: Array) -> bool:
    """Whether ``x`` is a NumPy array, which compiled CPU loops can read."""
    return isinstance(x, np.ndarray)


def to_device(x: Any, xp: Namespace, dtype: npt.DTypeLike | None = None) -> Array:
    """Copy to the device of ``xp``; no copy where the array is there already with that dtype."""
    return xp.asarray(x) if dtype is None else xp.asarray(x, dtype=dtype)


def to_host(x: Array) -> npt.NDArray[Any]:
    """Return a NumPy array; on a device this copies and waits for the device."""
    if isinstance(x, np.ndarray):
        return x
    host: npt.NDArray[Any] = array_namespace(x).asnumpy(x)
    return host


def has_streams(xp: Namespace) -> bool:
    """Whether work can be queued beside other work; a CPU does what it is told at once."""
    return xp is not np and hasattr(xp, "cuda")


def synchronize(xp: Namespace) -> None:
    """Wait until the device has done everything asked of it so far (nothing to wait for on a CPU)."""
    if has_streams(xp):
        xp.cuda.get_current_stream().synchronize()


@cache
def gpu_available() -> bool:
    """Whether cupy is installed and finds a driver and a device."""
    if not _has_driver():
        return False
    try:
        import cupy
    except ImportError:
        return False
    return bool(cupy.cuda.is_available())


def _has_driver() -> bool:
    """Whether the library of a CUDA driver is here: cupy takes long to import only to say that there is none."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _cupy() -> Namespace:
    if not gpu_available():
        raise HardwareError(
            "no GPU can be used: cupy is not installed or finds no CUDA device; "
            "install heterps[gpu12] or heterps[gpu13] on a machine with a driver, or use the device 'cpu'"
        )
    import cupy

    return cupy


def _fake() -> Namespace:
    from heterps.device.fake import xp

    return xp


register_namespace("cpu", lambda: np)
register_namespace("gpu", _cupy)
register_namespace("fake", _fake, stand_in=True)
