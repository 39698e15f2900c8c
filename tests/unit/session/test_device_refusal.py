"""A GPU pool without a usable GPU is refused before anything runs, unless NumPy may stand in; reports say which."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.device import gpu_available
from heterps.device.fake import TRAFFIC
from heterps.errors import ClusterError, HardwareError, UnknownKindError
from heterps.planner.costs.profile import Profile
from heterps.runtime.batch.devices import CPU
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.measure.measuring import measure_profile
from tests import zoo

pytestmark = pytest.mark.skipif(gpu_available(), reason="there is a GPU here")
MODEL = "wide_deep"


def test_a_gpu_pool_is_refused_with_workers_and_reasons() -> None:
    with pytest.raises(ClusterError, match=r"worker compute-0: pool 'compute' is to compute on a GPU.*emulate=True"):
        hps.launch(zoo.staged(zoo.graph(MODEL)))


def test_workers_tagged_gpu_are_refused_whatever_the_plan_calls_them() -> None:
    made = zoo.staged(zoo.graph(MODEL))
    plan = replace(made, pools=tuple(replace(p, device=made.pools[0].device) for p in made.pools))
    with (
        local_cluster({"server": 1, "io": 1, "gpu": 1}) as client,
        pytest.raises(ClusterError, match="worker gpu-0: pool 'gpu'"),
    ):
        hps.launch(plan, client)


def test_inline_refuses_it_too() -> None:
    with pytest.raises(HardwareError, match="pool 'gpu' is to compute on a GPU"):
        hps.launch(zoo.staged(zoo.graph(MODEL)), engine="inline")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UnknownKindError, match="'tpu'"):
        hps.launch(hps.Plan.fused(zoo.graph(MODEL), batch_size=8), device="tpu")


@pytest.mark.parametrize("options", [{"emulate": True}, {"device": "cpu"}])
def test_with_leave_numpy_computes_and_every_report_says_so(options: dict) -> None:
    plan = zoo.staged(zoo.graph(MODEL))
    TRAFFIC.reset()
    with hps.launch(plan, **options) as session:
        last = session.fit(zoo.data(plan.graph))
    (label,) = map(str, last.profile.devices["compute"])
    assert label.startswith("CPU, emulated (")
    assert f"compute computes on {label}" in str(session.profile())
    assert "emulated: compute" in str(last)
    assert last.profile.devices.get("io", (CPU,)) == (CPU,)
    assert TRAFFIC.to_device == 0


def test_plain_cpus_are_not_worth_a_word() -> None:
    plan = hps.Plan.fused(zoo.graph(MODEL), batch_size=8)
    with hps.launch(plan) as session:
        last = session.fit(zoo.data(plan.graph))
    assert last.profile.computing == []
    assert "emulated" not in str(last)


def test_the_profile_is_measured_on_the_device_that_it_names() -> None:
    graph, core = zoo.graph("mnist_mlp"), hps.Hardware.local().pool("cpu")
    with pytest.raises(HardwareError, match="emulate=True"):
        measure_profile(graph, core, device="gpu:0")
    TRAFFIC.reset()
    found = measure_profile(graph, core, batch_sizes=(8, 16), device="fake", sockets=False)
    assert TRAFFIC.syncs > 0
    assert "fake, emulated" in found.pools["cpu"].source
    assert any("fake, emulated" in note for note in found.notes)


def test_commands_take_the_device(tmp_path) -> None:
    folder = tmp_path / "model"
    words = ["train", "graphs/wide_deep.py", "--data", "adult:test", "--set", "slots=19", "--set", "dense=5"]
    small = ["--set", "hidden=[8]", "--set", "dim=2", "--batch-size", "4096", "--profile", "--out", str(folder)]
    TRAFFIC.reset()
    result = CliRunner().invoke(main, [*words, *small, "--device", "fake"])
    assert result.exit_code == 0, result.output
    assert "computes on fake, emulated" in result.output
    assert TRAFFIC.to_device > 0
    for more in (["evaluate"], ["predict", "--out", str(tmp_path / "p.parquet")]):
        TRAFFIC.reset()
        read = CliRunner().invoke(main, [*more, str(folder), "--data", "adult:test", "--device", "fake"])
        assert read.exit_code == 0, read.output
        assert TRAFFIC.to_device > 0
    refused = CliRunner().invoke(main, [*words, "--device", "gpu:0"])
    assert refused.exit_code != 0
    assert "--emulate" in str(refused.output) + str(refused.exception)


def test_heterps_profile_takes_the_device(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict = {}

    def measured(*args, **options) -> Profile:
        given.update(options, kind=args[1].kind)
        raise HardwareError("enough")

    monkeypatch.setattr("heterps.runtime.measure.measuring.measure_profile", measured)
    CliRunner().invoke(main, ["profile", "graphs/mnist_mlp.py", "--device", "gpu:0", "--emulate"])
    assert (given["device"], given["emulate"], given["kind"]) == ("gpu:0", True, "gpu")
