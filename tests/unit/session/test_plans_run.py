"""What the planner proposes, the runtime runs: random small models on random hardware, trained."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import heterps as hps
from heterps import ops
from heterps.errors import PlanError
from heterps.hardware import Device, Hardware, Pool
from heterps.runtime.cluster.in_process import local_cluster

pytestmark = pytest.mark.xdist_group("dask")
ROWS, BATCH = 256, 32


def graph_of(rng: Random) -> hps.Graph:
    """A few tables, some pooled, layers one after another or side by side, pins here and there."""
    y, x = ops.input("y"), ops.input("x", shape=(2,))
    parts = [x]
    for i in range(rng.randint(1, 3)):
        ids = ops.input(f"ids{i}", shape=(2,), dtype="uint64")
        rows = ops.lookup(ids, table=f"table{rng.choice((0, i))}", dim=4, name=f"rows{i}")
        parts.append(ops.sum(rows, axis=1, name=f"pooled{i}") if rng.random() < 0.3 else rows)
    towers = []
    for i in range(rng.randint(1, 2)):
        h = ops.concat(*rng.sample(parts, rng.randint(1, len(parts))), x, name=f"features{i}")
        for j in range(rng.randint(1, 3)):
            h = ops.relu(ops.dense(h, rng.choice((4, 8)), name=f"fc{i}{j}"), name=f"relu{i}{j}")
        towers.append(ops.dense(h, 1, name=f"out{i}"))
    logit = towers[0] if len(towers) == 1 else ops.add(*towers, name="logit")
    return hps.Graph(loss=ops.logloss(logit, y, name="loss"))


def hardware_of(rng: Random) -> Hardware:
    """Two or three pools that differ in speed by up to a hundred: where the cuts lie is up to the planner."""

    def device(name: str, kind: str) -> Device:
        flops, bytes_, network = (10 ** rng.uniform(low, low + 2) for low in (6, 7, 7))
        return Device(name, kind, {"float32": flops}, 1e10, bytes_, network, price_per_hour=rng.uniform(1, 4))

    kinds = ["cpu", *rng.choices(("cpu", "gpu"), k=rng.randint(1, 2))]
    pools = [Pool(f"p{i}", device(f"d{i}", kind), cap=rng.randint(1, 2)) for i, kind in enumerate(kinds)]
    pools[0] = replace(pools[0], cap=4)
    return Hardware(tuple(pools))


def pins_of(rng: Random, hardware: Hardware) -> dict[str, str]:
    """Pins that force cuts the planner would not take by itself."""
    names = ["rows*", "fc0*", "out*", "relu*"]
    return {name: rng.choice(hardware.pools).name for name in rng.sample(names, rng.randint(0, 2))}


def planned(seed: int) -> hps.Plan | None:
    """The plan of a seed, None where there is none."""
    rng = Random(seed)
    graph, hardware = graph_of(rng), hardware_of(rng)
    try:
        return hps.plan(graph, hardware, batch_size=BATCH, pins=pins_of(rng, hardware))
    except PlanError as error:
        if "no feasible plan" not in str(error) and "pin" not in str(error):
            raise
        return None


def data_of(graph: hps.Graph) -> hps.Dataset:
    rng = np.random.default_rng(0)
    columns = {"y": rng.integers(0, 2, ROWS).astype(np.float32), "x": rng.normal(size=(ROWS, 2)).astype(np.float32)}
    tables = {op.name for op in graph.inputs} - set(columns)
    return hps.arrays(columns | {name: rng.integers(0, 50, (ROWS, 2)).astype(np.uint64) for name in sorted(tables)})


def check_runs(seed: int) -> int:
    """Launch the plan of a seed on CPU pools of its names and train it; return its number of stages, 0 if none."""
    plan = planned(seed)
    if plan is None:
        return 0
    pools = {pool.name: plan.units.get(pool.name, 0) for pool in plan.pools}
    pools[plan.shard_pool] += plan.shard_hosts
    with local_cluster(pools) as client, hps.launch(plan, client=client, emulate=True, mode="async") as session:
        last = list(session.train(data_of(plan.graph)))[-1]
    assert last.samples == ROWS, f"seed {seed}: {plan.report()}"
    assert np.isfinite(last.loss), f"seed {seed}"
    return len(plan.stages)


# The last has a stage on two pools of GPUs.
@pytest.mark.parametrize("seed", range(5))
def test_a_proposed_plan_runs(seed: int) -> None:
    check_runs(seed)


@pytest.mark.full
def test_many_proposed_plans_run_with_any_number_of_stages() -> None:
    stages = [check_runs(seed) for seed in range(5, 125)]
    assert {1, 2, 3} <= set(stages)
