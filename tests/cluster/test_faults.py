"""Workers killed in the middle of a run, on real processes: every batch counts once, in Sync with the same bits."""

import json
from typing import Any

import pytest

from heterps.tables import verify
from tests.cluster.conftest import Launched
from tests.cluster.faults import SCRIPT

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]


def start(launched: Launched, mode: str, victim: str, *launch: str, **options: Any) -> tuple[int, str, str]:
    (launched.folder / "faults.py").write_text(SCRIPT)
    words = f"import runpy, sys; sys.argv = ['faults.py', {mode!r}, {victim!r}, {json.dumps(options)!r}]\n"
    return launched.run(words + "runpy.run_path('faults.py', run_name='__main__')", *launch)


def run(launched: Launched, mode: str, victim: str, *launch: str, **options: Any) -> dict[str, Any]:
    code, out, err = start(launched, mode, victim, *launch, **options)
    assert code == 0, f"{out}\n{err}"
    if victim != "none":
        assert launched.wait_for("killed").startswith(victim)
    result = json.loads((launched.folder / "result.json").read_text())
    launched.wait_until_gone()
    return result


def check(result: dict[str, Any], mode: str) -> None:
    expected = result["expected"]
    assert (result["samples"], result["batches"]) == (expected["samples"], expected["batches"])
    if mode == "sync":
        assert result["digest"] == expected["digest"]


@pytest.mark.full  # make test plays it in test_matrix.py
@pytest.mark.parametrize("mode", ["sync", "async", "geo:7", "cache:7"])
def test_an_io_worker_is_killed(launched: Launched, mode: str) -> None:
    check(run(launched, mode, "io", "--servers", "1", "--io", "2", "--compute", "0"), mode)


@pytest.mark.full  # make test plays it in test_matrix.py
@pytest.mark.parametrize("mode", ["sync", "async", "geo:7", "cache:7"])
def test_a_shard_host_is_killed_and_the_run_returns_to_the_last_cut(launched: Launched, mode: str) -> None:
    folder = str(launched.folder / "model")
    result = run(
        launched, mode, "server", "--servers", "1", "--io", "2", "--compute", "0", checkpoint=folder, every_s=0.2
    )
    check(result, mode)


@pytest.mark.full
@pytest.mark.parametrize("which", ["newest", "all"])
def test_a_host_is_killed_and_the_cut_to_return_to_is_broken(launched: Launched, which: str) -> None:
    """All hosts go back to the cut before it, or to the beginning, and the run ends as if nothing had happened."""
    folder, pools = launched.folder / "model", ("--servers", "2", "--io", "2", "--compute", "0")
    options = {"checkpoint": str(folder), "every_s": 0.1, "break_cuts": which, "hosts": 2}
    code, out, err = start(launched, "sync", "server", *pools, **options)
    assert code == 0, f"{out}\n{err}"
    name = launched.wait_for("broken")
    back = "the beginning" if which == "all" else f"{folder / 'checkpoint'}/0"
    assert f"{folder / 'checkpoint' / name} cannot be used, the run goes back to" in err
    assert f"the run goes back to {back}" in err
    assert "is damaged: sha256" in err
    check(json.loads((launched.folder / "result.json").read_text()), "sync")
    assert verify(folder / "checkpoint")
    assert not (folder / "checkpoint" / name).exists(), "what cannot be read is not kept"
    launched.wait_until_gone()


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async", "cache:7"])
def test_a_shard_host_is_killed_under_stages_that_read_from_it(launched: Launched, mode: str) -> None:
    """A stage's read of parameters fails: that is the host's loss, not the end of the link to the stage."""
    folder = str(launched.folder / "model")
    pools = ("--servers", "1", "--io", "2", "--compute", "2")
    check(run(launched, mode, "server", *pools, checkpoint=folder, every_s=0.2, staged=True), mode)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_second_training_returns_to_the_last_cut_of_the_one_before(launched: Launched, mode: str) -> None:
    """Its own first cut would be made at its end."""
    pools = ("--servers", "2", "--io", "2", "--compute", "0")
    check(run(launched, mode, "server", *pools, hosts=2, trained_before=1, checkpoint=str(launched.folder / "m")), mode)


@pytest.mark.parametrize("mode", [pytest.param("sync", marks=pytest.mark.full), "async"])
def test_a_stage_worker_is_killed(launched: Launched, mode: str) -> None:
    check(run(launched, mode, "compute", "--servers", "1", "--io", "2", "--compute", "2", staged=True), mode)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("device", ["fake", None])
def test_a_stage_worker_is_killed_that_holds_the_dense_parameters(
    launched: Launched, mode: str, device: str | None
) -> None:
    """All return to the last cut, which has what was on the device."""
    options = {"checkpoint": "cuts", "every_s": 0.5, "staged": True, "dense_on": "stage", "device": device}
    chosen = {name: value for name, value in options.items() if value is not None}
    check(run(launched, mode, "compute", "--servers", "1", "--io", "2", "--compute", "2", **chosen), mode)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["compute", "server", "io"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_worker_is_killed_while_tables_are_on_a_device(launched: Launched, mode: str, victim: str) -> None:
    """A cut has the rows that are on the device: what returns to it loses nothing and counts nothing twice."""
    launched.environment["DASK_HETERPS__WORKER__GPU_ROWS"] = "100kB"  # not all fit: they take turns
    options = {"checkpoint": "cuts", "every_s": 0.5, "staged": True, "storage": {"*": "gpu"}, "device": "fake"}
    pools = ("--servers", "2", "--io", "2", "--compute", "2")
    check(run(launched, mode, victim, *pools, hosts=2, epochs=1, **options), mode)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["io", "server"])
def test_a_worker_is_killed_while_its_cache_is_on_a_device(launched: Launched, victim: str) -> None:
    """What it had gathered there goes with it, and is learned again by whoever takes its units over."""
    options = {"checkpoint": "cuts", "every_s": 0.5, "device": "fake"}
    result = run(launched, "cache:7", victim, "--servers", "2", "--io", "2", "--compute", "0", hosts=2, **options)
    assert result["cache_devices"] == ["fake"]
    check(result, "cache:7")


@pytest.mark.full
def test_five_workers_and_two_hosts_give_the_bits_of_one_thread(launched: Launched) -> None:
    result = run(launched, "sync", "none", "--servers", "2", "--io", "5", "--compute", "0", workers=5, hosts=2)
    check(result, "sync")


def test_the_scheduler_is_killed_and_another_launch_goes_on(launched: Launched) -> None:
    pools, folder = ("--servers", "1", "--io", "2"), str(launched.folder / "model")
    code, _, err = start(launched, "sync", "scheduler", *pools, checkpoint=folder, every_s=0.1)
    assert code != 0
    assert "the scheduler is gone" in err
    launched.wait_until_gone()
    check(run(launched, "sync", "none", *pools, checkpoint=folder, resume=folder), "sync")


@pytest.mark.parametrize(("mode", "victim"), [pytest.param("sync", "io", marks=pytest.mark.full), ("async", "compute")])
def test_a_frozen_worker_is_lost_to_the_run(launched: Launched, mode: str, victim: str) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__CALL"] = "15s"
    pools = ("--servers", "1", "--io", "2", "--compute", "2")
    check(run(launched, mode, victim, *pools, staged=victim == "compute", freeze=True), mode)


@pytest.mark.soak  # some ninety seconds of waiting
def test_a_frozen_shard_host_is_lost_to_the_run(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__TIMEOUTS__CALL"] = "8s"
    code, _, err = start(launched, "async", "server", "--servers", "1", "--io", "2", freeze=True)
    assert code != 0
    assert "for a server worker" in err or "there is no cut to return to" in err, err
    launched.wait_until_gone()
