"""What the engine takes, measured in processes of its own."""

from dataclasses import replace

import psutil
import pytest

from heterps.errors import ClusterError
from heterps.hardware import Hardware
from heterps.planner.costs.profile import Rates
from heterps.runtime.measure import own_processes
from heterps.runtime.measure.engine_share import with_engine

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(240)]


def test_the_engine_is_measured_in_processes() -> None:
    """What calls take is left out of it: none here, as a data sheet's may be more than all of it takes."""
    before = set(psutil.Process().children(recursive=True))
    rates = with_engine(replace(Rates.of(Hardware.local().pool("cpu").device), call_s=0.0), processes=True)
    assert 0 <= rates.idle_cores < 0.1, "the processor clock of other processes ticks in hundredths"
    assert 0 < rates.batch_s < 0.1
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_measurement_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_processes, "_SCRIPT", "heterps.no_such_module")
    with pytest.raises(ClusterError, match="no_such_module"):
        own_processes.engine_in_processes()
