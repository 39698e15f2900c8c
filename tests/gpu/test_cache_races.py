"""A cache on a device whose streams take their time: nothing of it is touched out of order, and a batch waits once."""

from __future__ import annotations

import pytest

from heterps.errors import HeterpsError
from heterps.runtime.batch import device_program
from heterps.runtime.batch.devices import DeviceWish
from tests.gpu.planted import Mistake
from tests.gpu.streams import RaceError
from tests.gpu.timed_device import TimedDevice, timed
from tests.unit.runtime.batch.test_cache_copy import Played, job

PROGRAM = "runtime/batch/device_program.py"
MISTAKES = [
    Mistake(PROGRAM, "there = dict(self._laps[-1].arrive())", "there = dict(self._laps[-1]._device)", "races"),
    Mistake(PROGRAM, "here = self._laps[-1].collect()", "here = self._laps[-1]._results", "races"),
]


def play(machine: TimedDevice) -> tuple[int, int]:
    """Train eight batches in units of two; return copies and waits of the last four."""
    played, counts = Played(job(staleness=3, devices=DeviceWish("fake"))), []
    for n in range(8):
        played.learn(n)
        if n % 2:
            played.settle(n - 1)
        counts.append((machine.copies, machine.syncs))
    return counts[7][0] - counts[3][0], counts[7][1] - counts[3][1]


CROSSED = (4 * 2 + 2, 4 + 2)  # one copy up and one down a batch, and a wait; once more down a unit, and a wait


def test_no_memory_is_touched_out_of_order() -> None:
    machine = TimedDevice(copy_down=1.0)
    with timed(machine):
        assert play(machine) == CROSSED


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_each_wait_removed_is_found(mistake: Mistake) -> None:
    module, machine = mistake.module(), TimedDevice(copy_down=1.0)
    with timed(machine) as patch:
        patch.setattr(module, "Transfer", device_program.Transfer)
        patch.setattr("heterps.runtime.batch.walk.DeviceProgram", module.DeviceProgram)
        try:
            crossed = play(machine)
        except (RaceError, HeterpsError):
            return
    assert crossed != CROSSED
