"""Which tests run where: full and soak tests only when asked for, gpu tests only with a CUDA device."""

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("HETERPS_SOAK") != "1":
        _skip(items, "soak", "long: run by make soak (HETERPS_SOAK=1)")
    if os.environ.get("HETERPS_FULL") != "1":
        _skip(items, "full", "long: run by make full (HETERPS_FULL=1)")
    if any(item.get_closest_marker("gpu") for item in items) and not _has_cuda():
        _skip(items, "gpu", "no CUDA device here")


def _skip(items: list[pytest.Item], marker: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(marker):
            item.add_marker(pytest.mark.skip(reason=reason))


def _has_cuda() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except Exception:  # not installed, no driver, no device: all mean the same here
        return False
