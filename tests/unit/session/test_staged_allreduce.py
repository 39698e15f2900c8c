"""Dense layers all-reduced between the workers of a stage: the bits of tables, nothing dense goes back to readers."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import heterps as hps
from heterps.errors import PlanError
from heterps.runtime.batch.bench import Workbench
from heterps.tables.snapshots.snapshot import Snapshots
from heterps.testing.engine_contract import plan, same, trained
from heterps.testing.small_model import data
from tests.unit.runtime.run.test_dask_engine import staged

pytestmark = pytest.mark.xdist_group("dask")

ALL = {"fc": "allreduce", "out": "allreduce"}
HYBRID = {"fc": "allreduce", "*": "table"}


@cache
def by_tables(epochs: int = 2) -> Any:
    with hps.launch(plan(lanes=3), engine="inline", mode="sync") as session:
        return trained(session, epochs)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What stages gave back for each batch: the stages whose gradients came along, and those that kept theirs."""
    seen: list[Any] = []
    follow = Workbench.follow

    def watched(self: Workbench, work: Any, outcome: Any) -> None:
        seen.append((sorted(outcome.dense), outcome.kept))
        follow(self, work, outcome)

    monkeypatch.setattr(Workbench, "follow", watched)
    return seen


@pytest.mark.parametrize(
    ("parameters", "back"),
    [(ALL, []), pytest.param(HYBRID, [1], marks=pytest.mark.full)],
    ids=["all", "hybrid"],
)
def test_workers_of_a_stage_give_the_bits_of_tables(parameters: Any, back: list[int], outcomes: list[Any]) -> None:
    """With two shard hosts; where a layer goes by its table all gradients of the stage come back."""
    with hps.launch(staged(lanes=3, shard_hosts=2), mode="sync", parameters=parameters) as session:
        assert same(trained(session, epochs=2), by_tables())
        steps = session.engine.stage_steps()  # type: ignore[attr-defined]
    assert all(steps.values()), "every worker of the stage computes"
    assert set(map(str, outcomes)) == {str((back, (1,)))}


@pytest.mark.full
def test_one_worker_of_a_stage_gives_the_bits_of_tables() -> None:
    made = staged(lanes=3)
    alone = hps.Plan.from_json({**made.to_json(), "stages": [{**s, "units": 1} for s in made.to_json()["stages"]]})
    with hps.launch(alone, mode="sync", parameters=ALL) as session:
        assert same(trained(session, epochs=2), by_tables())


def test_one_thread_runs_the_same_plan() -> None:
    with hps.launch(staged(lanes=3), engine="inline", mode="sync", parameters=ALL) as session:
        assert same(trained(session, epochs=2), by_tables())


@pytest.mark.full
def test_a_stage_on_a_device_leaves_its_gradient_with_the_group() -> None:
    found = []
    for parameters in ({}, ALL):
        with hps.launch(staged(lanes=3), mode="sync", parameters=parameters, device="fake") as session:
            found.append(trained(session))
    assert same(*found)


@pytest.mark.full
@pytest.mark.parametrize("ways", [(ALL, {}), ({}, ALL)], ids=["to tables", "from tables"])
def test_a_run_goes_on_from_a_cut_by_another_way(ways: tuple[Any, Any], tmp_path: Path) -> None:
    first, second = ways
    launch = partial(hps.launch, staged(lanes=3), mode="sync", report_s=0.0)
    with launch(parameters=first, checkpoint=tmp_path, every_batches=5) as session:
        for _ in session.train(data(), epochs=2):
            if Snapshots(tmp_path / "checkpoint").generations():
                break
    with launch(parameters=second, resume=tmp_path) as session:
        assert same(trained(session, epochs=2), by_tables())


def test_what_stages_cannot_reduce_is_refused_by_name() -> None:
    launch = partial(hps.launch, engine="dask", mode="sync", parameters=ALL)
    with pytest.raises(PlanError, match=r"'out.weight' is all-reduced and belongs to stage 2.*'out=table'"):
        launch(staged("hidden", lanes=3))
    with pytest.raises(PlanError, match=r"'fc.weight' is all-reduced.*clipped where a batch comes back"):
        launch(staged(lanes=3), clip_norm=1.0)
    with pytest.raises(PlanError, match=r"'fc.weight' is all-reduced.*dense_on='stage'"):
        launch(staged(lanes=3), dense_on="stage")
    with pytest.raises(PlanError, match=r"'fc.weight' is all-reduced.*use mode 'sync'"):
        launch(staged(lanes=3), mode="async")
