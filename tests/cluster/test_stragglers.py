"""A worker that is far behind, on real processes: what it runs is run a second time, and all counts once."""

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.test_faults import check, run

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async", "geo:7"])
def test_what_a_slow_worker_runs_is_run_a_second_time(launched: Launched, mode: str) -> None:
    """It is stopped for most of the time until that has happened, for which there are passes enough."""
    launched.environment["DASK_HETERPS__STRAGGLERS__AFTER"] = "1s"
    result = run(launched, mode, "none", "--servers", "1", "--io", "2", "--compute", "0", slow="io-1", epochs=10)
    check(result, mode)
    assert result["twice"] >= 1


@pytest.mark.full
def test_cuts_do_not_wait_for_a_slow_worker(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__STRAGGLERS__AFTER"] = "1s"
    options = {"checkpoint": str(launched.folder / "model"), "every_s": 0.3, "epochs": 4}
    result = run(
        launched, "sync", "none", "--servers", "2", "--io", "3", "--compute", "0", slow="io-1", hosts=2, **options
    )
    check(result, "sync")
    assert result["twice"] >= 1
