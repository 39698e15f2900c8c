"""All-reduced parameters on real processes: the bits of one thread through tables, whoever is killed meanwhile."""

from typing import Any

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.test_faults import check, run, start

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.xdist_group("faults")]

ALL = {"fc": "allreduce", "out": "allreduce"}
HYBRID = {"fc": "allreduce", "*": "table"}  # the last layer goes through its table, as rows do


def reduced(launched: Launched, victim: str, *pools: str, **options: Any) -> None:
    check(run(launched, "sync", victim, *pools, "--compute", "0", **{"parameters": HYBRID, **options}), "sync")


def test_a_member_is_killed_and_costs_nothing(launched: Launched) -> None:
    reduced(launched, "io", "--servers", "1", "--io", "3", workers=3)


def test_four_members_and_two_hosts_give_the_bits_of_one_thread(launched: Launched) -> None:
    pools = ("--servers", "2", "--io", "4")
    cuts = {"checkpoint": str(launched.folder / "model"), "every_s": 0.2}
    reduced(launched, "none", *pools, workers=4, hosts=2, parameters=ALL, **cuts)


def test_the_only_member_is_killed_and_the_run_returns_to_the_last_cut(launched: Launched) -> None:
    folder = str(launched.folder / "model")
    reduced(launched, "io", "--servers", "1", "--io", "1", workers=1, checkpoint=folder, every_s=0.2)


def test_a_shard_host_is_killed_under_a_group(launched: Launched) -> None:
    folder = str(launched.folder / "model")
    reduced(launched, "server", "--servers", "1", "--io", "2", checkpoint=folder, every_s=0.2, parameters=ALL)


def test_a_frozen_member_is_lost_to_the_group(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__CALL"] = "15s"
    reduced(launched, "io", "--servers", "1", "--io", "3", workers=3, freeze=True)


def test_the_scheduler_is_killed_and_tables_go_on_where_a_group_was(launched: Launched) -> None:
    """A cut holds what the group had: another launch may let it travel another way."""
    pools, folder = ("--servers", "1", "--io", "2"), str(launched.folder / "model")
    code, _, err = start(launched, "sync", "scheduler", *pools, checkpoint=folder, every_s=0.1, parameters=ALL)
    assert code != 0
    assert "the scheduler is gone" in err
    launched.wait_until_gone()
    check(run(launched, "sync", "none", *pools, checkpoint=folder, resume=folder), "sync")


STAGES = ("--servers", "1", "--io", "2", "--compute", "2")


@pytest.mark.parametrize("parameters", [ALL, HYBRID], ids=["all", "hybrid"])
def test_a_stage_worker_is_killed_and_costs_nothing(launched: Launched, parameters: dict[str, str]) -> None:
    """No cut is there to return to: the other one has the same parameters."""
    check(run(launched, "sync", "compute", *STAGES, staged=True, parameters=parameters), "sync")


@pytest.mark.parametrize("victim", ["io", "server", "none"])
def test_stages_reduce_whoever_else_is_killed(launched: Launched, victim: str) -> None:
    cuts = {"checkpoint": str(launched.folder / "model"), "every_s": 0.2}
    check(run(launched, "sync", victim, *STAGES, staged=True, parameters=ALL, **cuts), "sync")


def test_a_frozen_stage_worker_is_lost_to_the_group(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__CALL"] = "15s"
    cuts = {"checkpoint": str(launched.folder / "model"), "every_s": 0.2}
    check(run(launched, "sync", "compute", *STAGES, staged=True, freeze=True, parameters=ALL, **cuts), "sync")
