"""A device with little memory, for what is refused before it is begun."""

from dataclasses import replace

import pytest

from heterps.device import FoundDevices, found_devices
from heterps.runtime.batch import job as job_module
from heterps.runtime.run import open as open_module

FREE = 2**20


@pytest.fixture
def small_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> FoundDevices:
        return replace(found_devices(), free_bytes={"fake": FREE})

    for module in (job_module, open_module):
        monkeypatch.setattr(module, "found_devices", found)
