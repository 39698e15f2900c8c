"""Workers that come and go while a run goes on, on real processes: all counts once, and nothing returns to a cut."""

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.test_faults import check, run

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]


@pytest.mark.full
@pytest.mark.parametrize(("mode", "replicas"), [("sync", 1), ("async", 1), ("sync", 2)])
def test_servers_and_io_workers_leave_and_their_work_goes_to_others(
    launched: Launched, mode: str, replicas: int
) -> None:
    """There is no checkpoint, so a host that was not handed over would end the run."""
    pools = ("--servers", "3", "--io", "3", "--compute", "0")
    scale = {"servers": 2, "io": 1}
    check(run(launched, mode, "none", *pools, workers=3, hosts=3, epochs=8, replicas=replicas, scale=scale), mode)
