"""Tables on a GPU in plans: named in the report, stored in the plan's graph, refused where they do not fit."""

from dataclasses import replace

import pytest

import heterps as hps
from graphs.wide_deep import wide_deep
from heterps import ops
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.planner import MinCost, Request, plan
from heterps.planner.costs.gpu_tier import gpu_texts
from heterps.planner.tiers import with_storage

PINS = {"fc*": "gpu"}


def stored(tier: str = "gpu") -> hps.Graph:
    return with_storage(wide_deep(), {"deep": tier})


def made(graph: hps.Graph, hardware: Hardware, **options: object) -> hps.Plan:
    return plan(graph, hardware, goal=MinCost(1e5), **{"batch_size": 4096, "pins": PINS, **options})


def with_memory(found: hps.Plan, memory_bytes: float) -> hps.Plan:
    """The same plan on GPUs with other memory; a smaller one would have no plan for its layers either."""
    pools = tuple(
        replace(pool, device=replace(pool.device, memory_bytes=memory_bytes)) if pool.kind == "gpu" else pool
        for pool in found.pools
    )
    return replace(found, pools=pools)


@pytest.mark.parametrize("tier", ["gpu", "gpu+ssd"])
def test_the_report_names_the_tier_and_how_much_fits(rented, tier):
    found = made(stored(tier), rented)
    assert [table.tier for table in found.forecast.tables] == [tier]
    where = "on the disk" if tier == "gpu+ssd" else "in the memory"
    assert any(f"rows fit at once, all are {where} of its worker" in line for line in found.assumptions)
    assert f", {tier}" in found.report()


def test_rows_on_a_gpu_take_no_memory_of_shard_hosts(rented):
    plans = [made(graph, rented) for graph in (wide_deep(), stored())]
    memory = [found.memory_bytes[found.shard_pool] for found in plans]
    assert memory[1] < memory[0]
    assert not any("fit at once" in line for line in plans[0].assumptions)


def test_a_batch_whose_rows_do_not_fit_is_refused_with_remedies(rented):
    costs = Request(stored(), rented, MinCost(1e5), (4096,)).costs(4096)
    found = made(stored(), rented)
    assert list(gpu_texts(with_memory(found, 4e9), costs))
    with pytest.raises(PlanError, match=r"table deep, wide does not fit on .*: a batch of 4,096 has .* 1\. A smaller"):
        list(gpu_texts(with_memory(found, 4e6), costs))


def test_a_plan_without_a_gpu_stage_is_refused(rented):
    with pytest.raises(PlanError, match=r"table deep, wide is to be on a GPU .*, but the cheapest plan computes"):
        made(stored(), rented, pins={"*": "cpu"})


def test_what_a_device_does_not_know_is_refused(rented):
    ids, y = ops.input("ids", shape=(2,), dtype="uint64"), ops.input("y")
    rows = ops.lookup(ids, table="t", dim=4, budget=9, when_full="least_recent", storage="gpu")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.concat(rows), 1, name="fc"), y))
    with pytest.raises(PlanError, match="table t cannot be on a GPU: group 't' has when_full='least_recent'"):
        made(graph, rented)


def test_a_pull_that_is_pinned_to_the_gpu_is_stored_there(rented):
    found = made(wide_deep(), rented, pins={"pull*": "gpu", **PINS})
    assert found.forecast.tables[0].tier == "gpu"
    gpu = not found.is_fused and found.pool(found.stages[1].pool).kind == "gpu"
    assert {op.attrs["storage"] for op in found.graph if op.kind == "lookup"} == ({"gpu"} if gpu else {"memory"})
    assert gpu
