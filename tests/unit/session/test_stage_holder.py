"""Dense parameters with the stage that computes with them: the numbers of shard hosts, and nothing dense crosses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from graphs.wide_deep import wide_deep
from heterps.cli import main
from heterps.errors import PlanError
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.model import Model
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import Shard
from heterps.tables.on_device.device_dense import DeviceDense
from tests import zoo
from tests.unit.session.test_device_training import crossed, same, trained

pytestmark = pytest.mark.xdist_group("dask")


def plan(cuts: bool = False, units: int = 1) -> hps.Plan:
    """Wide & Deep in two stages; or in three, of which the first and the last, on CPUs, have parameters too."""
    graph = zoo.graph("wide_deep")
    io, compute = (part.ops for part in hps.partition(graph).parts)
    made = zoo.staged(graph, [[*io, *compute[:3]], compute[3:-2], compute[-2:]] if cuts else None)
    stages = tuple(replace(s, units=units) if s.pool == "gpu" else s for s in made.stages)
    return replace(made, stages=stages)


def expected(made: hps.Plan) -> dict[str, Any]:
    return trained(hps.Plan.fused(made.graph, batch_size=made.batch_size), engine="inline")


@pytest.mark.parametrize(
    "device",
    ["fake", pytest.param("cpu", marks=pytest.mark.full), pytest.param("gpu:0", marks=pytest.mark.gpu)],
)
@pytest.mark.parametrize(
    ("cuts", "units"),
    [pytest.param(False, 1, marks=pytest.mark.full), (True, 1), pytest.param(False, 2, marks=pytest.mark.full)],
)
def test_it_trains_as_shard_hosts_do(device: str, cuts: bool, units: int) -> None:
    made = plan(cuts, units)
    same(trained(made, device=device, dense_on="stage"), expected(made))


def _where(shard: Shard, host: int) -> tuple[str, int]:
    return type(shard.dense).__name__, len(shard.dense)


@pytest.mark.full
def test_the_parameters_are_on_the_device_and_nowhere_else() -> None:
    made = plan()
    with hps.launch(made, device="fake", dense_on="stage", mode="sync") as session:
        list(session.train(zoo.data(made.graph)))
        size = session.job.model.layout.size
        assert session.engine.each_shard(_where) == [("DenseBlock", 0), (DeviceDense.__name__, size)]


def test_nothing_dense_crosses() -> None:
    """One copy each way and one wait as before, less the parameters up and their gradient down."""
    before, after = crossed(plan(), 4), crossed(plan(), 4, dense_on="stage")
    assert (after.to_device, after.to_host, after.syncs) == (1, 1, 1)
    size = 4 * Model(plan().graph).layout.size
    assert before.bytes_to_device - after.bytes_to_device >= size
    assert before.bytes_to_host - after.bytes_to_host >= size


@pytest.mark.full
def test_units_of_several_batches_are_added_up_there() -> None:
    made = plan()
    found = []
    for dense_on in ("hosts", "stage"):
        with hps.launch(made, device="fake", dense_on=dense_on, mode=Async(depth=1, merge=2), report_s=1e9) as session:
            session.fit(zoo.data(made.graph, 5 * zoo.BATCH))
            found.append(np.asarray(session.predict(zoo.data(made.graph))))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_nothing_is_left_behind() -> None:
    made, hosts = plan(), []
    with hps.launch(made, device="fake", dense_on="stage", mode="async", report_s=1e9) as session:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ShardHost, "keep", _noting(hosts, ShardHost.keep))
            session.fit(zoo.data(made.graph, 10 * zoo.BATCH))
        assert len(hosts) == 10
        assert len(hosts[0].holder) == 0


def _noting(hosts: list[ShardHost], keep: Any) -> Any:
    def noted(self: ShardHost, *args: Any) -> None:
        hosts.append(self)
        keep(self, *args)

    return noted


def test_a_cut_has_them_and_any_run_goes_on_from_it(tmp_path: Path) -> None:
    held = {"dense_on": "stage"}
    zoo.check_cuts(plan(), tmp_path, held, [held, {"dense_on": "hosts"}])


@pytest.mark.full
def test_a_second_training_goes_on_with_them() -> None:
    made, found = plan(), []
    for dense_on in ("hosts", "stage"):
        with hps.launch(made, dense_on=dense_on, device="fake", mode="sync", report_s=1e9) as session:
            for _ in range(2):
                session.fit(zoo.data(made.graph))
            found.append(np.asarray(session.predict(zoo.data(made.graph))))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_what_cannot_be_is_refused() -> None:
    fused = hps.Plan.fused(zoo.graph("wide_deep"), batch_size=8)
    with pytest.raises(PlanError, match="give it a stage on other workers"):
        hps.launch(fused, dense_on="stage")
    with pytest.raises(PlanError, match="dense_on='gpu'"):
        hps.launch(fused, dense_on="gpu")


@pytest.mark.full
def test_the_command_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo.staged(wide_deep(slots=19, dense=5, dim=2, hidden=(8,)), batch_size=4096).save(tmp_path / "plan.json")
    words = ["train", str(tmp_path / "plan.json"), "--data", "adult:test", "--device", "fake", "--dense-on", "stage"]
    held: list[ShardHost] = []
    monkeypatch.setattr(ShardHost, "keep", _noting(held, ShardHost.keep))
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert held
    refused = CliRunner().invoke(main, [*words[:-1], "moon"])
    assert refused.exit_code == 2
    assert "moon" in refused.output
