"""Which tests run where: gpu tests only with a CUDA device. The tiers are markers: see CONTRIBUTING.md."""

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that others use, or that compiles a loop meanwhile.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not _has_cuda():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their length: their content may differ from process to process (a gzip header has a clock)."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


def _has_cuda() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except Exception:  # not installed, no driver, no device: all mean the same here
        return False
