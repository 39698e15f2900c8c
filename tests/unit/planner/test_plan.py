import json

import pytest

from graphs.wide_deep import wide_deep
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.planner import Certificate, Cost, Forecast, Plan, Share, Stage, StageForecast, TableForecast
from heterps.planner.costs.forecast import Rival
from heterps.stages.lowering import lower


def full_plan():
    hardware = Hardware.local()
    forecast = Forecast(
        1e5,
        (StageForecast("all", Cost(read_s=1e-3, kernel_s=2e-3), 0.9, 1.1e5, 1e8, "kernel_s"),),
        "all",
        2.0,
        {"cpu": 2.0},
        {"cpu - cpu": 1e6},
        0.1,
        (TableForecast("deep+wide", 1e6, 1e9, "ssd", "sampled"),),
    )
    stage = Stage("all", ("a", "b"), ("a", "b"), "cpu", 2, (Share("cpu", 1, 0.25),))
    return Plan(
        wide_deep(),
        (stage,),
        hardware.pools,
        4096,
        forecast=forecast,
        certificate=Certificate("exact", "cost", 1.0, 1.0, 0.0, "why", 3, 0.1),
        rivals=(Rival("greedy", 2.0, 1e5, "dearer"),),
        memory_bytes={"cpu": 1e9},
        assumptions=("one", "two"),
    )


def test_fused_plan_runs_every_op_in_one_stage():
    graph = wide_deep()
    plan = Plan.fused(graph, batch_size=512, workers=2)
    assert plan.is_fused
    assert plan.stages[0].ops == tuple(op.name for op in lower(graph).graph)
    assert plan.units == {"cpu": 2}
    assert plan.lanes == 2
    assert plan.stage_of("fc0") is plan.stages[0]
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_json_round_trip_of_a_full_plan(tmp_path):
    plan = full_plan()
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_price_and_parts():
    forecast = full_plan().forecast
    assert forecast.price_per_million_rows == pytest.approx(2 / 3600 * 10)
    assert forecast.busy == {"all": 0.9}
    assert list(forecast.stages[0].cost.parts()) == ["kernel_s", "read_s"]
    assert (forecast.stages[0].cost + Cost(read_s=1.0)).read_s == pytest.approx(1.001)


def test_wrong_plans_are_named(tmp_path):
    graph = wide_deep()
    with pytest.raises(PlanError, match="'gpu', which the plan does not describe"):
        Plan(graph, (Stage("s", (), (), "gpu", 1),), Hardware.local().pools, 1)
    with pytest.raises(PlanError, match="shard hosts sit on pool 'x'"):
        Plan.fused(graph, batch_size=1, shard_pool="x")
    with pytest.raises(PlanError, match="batch_size is 0"):
        Plan.fused(graph, batch_size=0)
    with pytest.raises(PlanError, match="no stage runs op 'nope'"):
        Plan.fused(graph, batch_size=1).stage_of("nope")
    with pytest.raises(PlanError, match="uses no pool 'gpu'"):
        Plan.fused(graph, batch_size=1).pool("gpu")
    with pytest.raises(PlanError, match='format is "x", expected "heterps-plan/1"'):
        Plan.from_json({"format": "x"})
    with pytest.raises(PlanError, match="cannot be read"):
        Plan.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(PlanError, match="not JSON"):
        Plan.load(tmp_path / "bad.json")
