import pytest

from heterps.device import gpu_available


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if "gpu" in item.keywords and item.get_closest_marker("gpu") and not gpu_available():
            item.add_marker(skip)
