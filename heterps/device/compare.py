"""Numbers of a device against NumPy's: what `heterps doctor`, the tests and the first run on a new device share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, to_host
from heterps.errors import HardwareError

__all__ = ["same", "ulps_apart"]


def ulps_apart(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return how many representable numbers lie between two arrays of floats; equal bits, and NaN beside NaN, are 0."""
    a, b = np.asarray(a), np.asarray(b)
    signed = np.int32 if a.dtype == np.float32 else np.int64
    lowest = np.int64(np.iinfo(signed).min)
    x, y = (np.ascontiguousarray(v).view(signed).astype(np.int64).reshape(v.shape) for v in (a, b))
    x, y = (np.where(v < 0, lowest - v, v) for v in (x, y))  # negative numbers count downward from zero
    with np.errstate(over="ignore"):
        apart = np.abs(x - y)
    return np.where((np.isnan(a) & np.isnan(b)) | (a == b), 0, apart)


def same(what: str, got: Array, expected: npt.NDArray[Any], *, ulps: int = 0) -> None:
    """Raise a HardwareError that names the first number of ``got`` that is further than ``ulps`` from the expected."""
    host = to_host(got)
    if host.shape != expected.shape or host.dtype != expected.dtype:
        raise HardwareError(f"{what}: got {host.dtype} {host.shape}, expected {expected.dtype} {expected.shape}")
    wrong = _different(host, expected, ulps)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise HardwareError(
            f"{what}: {int(wrong.sum())} of {wrong.size} numbers are wrong, first at {list(where)}: "
            f"got {host[where]!r}, expected {expected[where]!r}"
        )


def _different(a: npt.NDArray[Any], b: npt.NDArray[Any], ulps: int) -> npt.NDArray[np.bool_]:
    if a.dtype.kind != "f":
        return np.asarray(a != b)
    if ulps:
        return ulps_apart(a, b) > ulps
    bits = np.dtype(f"u{a.dtype.itemsize}")
    x, y = (np.ascontiguousarray(v).view(bits).reshape(v.shape) for v in (a, b))
    return np.asarray((x != y) & ~(np.isnan(a) & np.isnan(b)))  # +0 and -0 differ here
