"""Comparing numbers bit by bit, and by the numbers that lie between."""

from __future__ import annotations

import numpy as np
import pytest

from heterps.device.compare import same, ulps_apart
from heterps.errors import HardwareError

ONE = np.float32(1)
NEXT = np.nextafter(ONE, np.float32(2))


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (ONE, ONE, 0),
        (ONE, NEXT, 1),
        (np.float32(0), np.float32(-0.0), 0),
        (np.float32(1e-45), np.float32(-1e-45), 2),
        (np.float32(np.nan), np.float32(np.nan), 0),
        (np.float64(1), np.nextafter(np.float64(1), 0), 1),
    ],
)
def test_ulps(a: np.floating, b: np.floating, apart: int) -> None:
    assert int(ulps_apart(np.asarray(a), np.asarray(b))) == apart
    assert ulps_apart(np.array([a, b]), np.array([b, b])).tolist() == [apart, 0]


@pytest.mark.parametrize(
    ("got", "expected", "ulps"),
    [
        (np.asarray(ONE), np.asarray(NEXT), 0),
        (np.array([1, 0], np.float32), np.array([1, -0.0], np.float32), 0),
        (np.array([1, np.nan], np.float32), np.array([1, 2], np.float32), 1),
        (np.array([1, np.inf], np.float32), np.array([1, 2], np.float32), 3),
        (np.array([1, 2]), np.array([1, 3]), 0),
        (np.array([1, 2], np.int32), np.array([1, 2], np.int64), 0),
        (np.zeros(2), np.zeros(3), 0),
    ],
)
def test_what_differs_is_named(got: np.ndarray, expected: np.ndarray, ulps: int) -> None:
    with pytest.raises(HardwareError, match=r"^a kernel: "):
        same("a kernel", got, expected, ulps=ulps)
    same("a kernel", expected, expected, ulps=ulps)


def test_the_place_is_named() -> None:
    with pytest.raises(HardwareError, match=r"1 of 4 numbers are wrong, first at \[1, 0\]: got .*7.*, expected .*3"):
        same("k", np.array([[1, 2], [7, 4]]), np.array([[1, 2], [3, 4]]))
    same("k", np.asarray(NEXT), np.asarray(ONE), ulps=1)
