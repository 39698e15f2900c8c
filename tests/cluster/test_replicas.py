"""Shard hosts with backups, on real processes that are killed: the backup takes over and nothing returns to a cut."""

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.test_faults import check, run

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]
POOLS = ("--servers", "2", "--io", "2", "--compute", "0")


@pytest.mark.full  # make test plays it in test_matrix.py
@pytest.mark.parametrize("mode", ["sync", "async", "geo:7", "cache:7"])
def test_a_primary_is_killed_and_its_backup_takes_over(launched: Launched, mode: str) -> None:
    """There is no checkpoint, so nothing could return to a cut."""
    check(run(launched, mode, "server", *POOLS, hosts=2, replicas=2), mode)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["sync", "async", "geo:7"])
def test_servers_are_killed_one_after_another(launched: Launched, mode: str, seed: int) -> None:
    """Each time a new backup was copied while training went on."""
    pools = ("--servers", "4", "--io", "2", "--compute", "0")  # so that there is always one to put a backup on
    check(run(launched, mode, "server", *pools, hosts=2, replicas=2, kills=3, seed=seed, epochs=8), mode)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_primary_freezes_and_its_backup_takes_over(launched: Launched, mode: str) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__CALL"] = "15s"
    check(run(launched, mode, "server", *POOLS, hosts=2, replicas=2, freeze=True), mode)


@pytest.mark.full
def test_a_shard_host_without_a_backup_freezes_and_the_run_returns_to_the_last_cut(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__CALL"] = "15s"
    folder = str(launched.folder / "model")
    check(run(launched, "sync", "server", *POOLS, hosts=2, freeze=True, checkpoint=folder, every_s=0.2), "sync")
