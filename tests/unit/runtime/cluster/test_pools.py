import time

import dask
import pytest

from heterps.errors import ClusterError
from heterps.graph import Graph, ops
from heterps.hardware import Hardware
from heterps.launching import launch
from heterps.planner import MinCost, plan as make_plan
from heterps.planner.plan import Plan
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.pools import Need, check, group_by_pool, pools_of, wait_for_pools, workers_from
from heterps.runtime.cluster.versions import check_versions, report_versions
from heterps.runtime.run.open import needs_of_roles, on_pools
from heterps.runtime.run.roles import roles_for


def worker(name: str, memory: int = 2**30, **resources: float) -> dict[str, object]:
    return {"name": name, "host": "h", "nthreads": 2, "memory_limit": memory, "resources": resources}


IDENTITY = {
    "workers": {
        "tcp://h:1": worker("both", HPS_IO=1, HPS_SERVER=1),
        "tcp://h:2": worker("a", HPS_IO=1),
        "tcp://h:3": worker("plain"),
        "tcp://h:4": worker("unlimited", memory=0, GPU=1),
    }
}
with dask.config.set({"heterps.strict-pools": True}):
    POOLS = group_by_pool(workers_from(IDENTITY))


def test_a_worker_that_declares_nothing_serves_all_pools_but_gpu_unless_that_is_forbidden() -> None:
    plain = {"workers": {"tcp://h:3": IDENTITY["workers"]["tcp://h:3"]}}
    assert [pool.name for pool in group_by_pool(workers_from(plain))] == ["compute", "io", "server"]
    with dask.config.set({"heterps.strict-pools": True}):
        assert group_by_pool(workers_from(plain)) == ()


def test_workers_are_grouped_by_what_they_declare() -> None:
    assert {pool.name: [w.name for w in pool.workers] for pool in POOLS} == {
        "gpu": ["unlimited"],
        "io": ["a", "both"],
        "server": ["both"],
    }
    assert POOLS[1].addresses == ("tcp://h:2", "tcp://h:1")
    assert POOLS[0].resource == "GPU"


def test_a_fitting_cluster_passes() -> None:
    check(POOLS, [Need("io", 2, 2**30), Need("server"), Need("gpu", 1, 2**40)])


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(ClusterError) as caught:
        check(POOLS, [Need("io", 3), Need("compute"), Need("server", 1, 3 * 2**30)])
    message = str(caught.value)
    assert "pool 'io' has 2 of 3 workers; pools found: gpu (1), io (2), server (1)" in message
    assert "pool 'compute' has 0 of 1 workers" in message
    assert "--resources HPS_COMPUTE=1" in message
    assert "worker both of pool 'server' may use 1.00 GiB, 3.00 GiB are needed" in message


def test_a_plan_says_what_it_needs() -> None:
    x = ops.input("x", shape=(3,))
    graph = Graph(loss=ops.logloss(ops.dense(x, 1, name="out"), ops.input("y", shape=())))
    plan = Plan.fused(graph, batch_size=8, workers=2, shard_hosts=3, memory_bytes={"cpu": 5.0})
    assert needs_of_roles(plan, roles_for(plan, {"cpu"})) == (Need("cpu", 3, 5.0),)


def gpu_plan() -> Plan:
    """A plan of the planner's for GPUs that are rented."""
    pools = """
    [[pool]]
    name = "cpu"
    device = "c6i-8xlarge"
    [[pool]]
    name = "gpu"
    device = "l4"
    serves = false
    """
    x = ops.input("x", shape=(512,))
    graph = Graph(loss=ops.logloss(ops.dense(ops.dense(x, 512, name="fc"), 1), ops.input("y", shape=())))
    return make_plan(graph, Hardware.from_toml(pools), batch_size=64, goal=MinCost(1e4), pins={"fc": "gpu"})


def test_a_plan_takes_the_names_of_the_pools_it_runs_on() -> None:
    plan = gpu_plan()
    placed = on_pools(plan, roles_for(plan, {"server", "io", "compute"}))
    assert [stage.pool for stage in placed.stages][:2] == ["io", "compute"]
    assert placed.shard_pool == "server"
    assert placed.pool("compute").kind == "gpu"
    assert set(placed.memory_bytes) == {"server", "io", "compute"}


def test_a_cluster_of_another_kind_is_refused_before_anything_runs() -> None:
    plan = gpu_plan()
    workers = dict.fromkeys(("server", "io", "compute"), 1 + plan.shard_hosts)
    with local_cluster(workers) as client:
        with pytest.raises(ClusterError, match="worker compute-0: pool 'compute' is to compute on a GPU and cannot"):
            launch(plan, client)
        launch(plan, client, emulate=True).close()  # a plan of the planner's for GPUs, tried without one


def test_other_versions_are_named() -> None:
    mine = report_versions()
    check_versions(mine, {"io-0": mine})
    theirs = {
        "io-0": mine,
        "io-1": {**mine, "heterps": "0.0.1"},
        "io-2": {k: v for k, v in mine.items() if k != "numpy"},
    }
    with pytest.raises(ClusterError) as caught:
        check_versions(mine, theirs)
    assert f"worker io-1 has heterps 0.0.1, this process {mine['heterps']}" in str(caught.value)
    assert f"worker io-2 has numpy missing, this process {mine['numpy']}" in str(caught.value)
    assert "io-0" not in str(caught.value)
    assert {"heterps", "numpy", "distributed", "python"} <= set(mine)


def test_waiting_for_pools_is_limited(local) -> None:
    start = time.monotonic()
    with pytest.raises(ClusterError, match="pool 'gpu' has 0 of 1 workers"):
        wait_for_pools(local, [Need("gpu")], timeout_s=0.3)
    assert time.monotonic() - start >= 0.3
    found = wait_for_pools(local, [Need("io", 2)])
    assert [pool.name for pool in found] == ["io"]


def test_a_worker_of_another_version_is_refused(local, monkeypatch) -> None:
    from heterps.runtime.cluster import pools

    mine = report_versions()
    old = {**mine, "python": "2.7"}
    monkeypatch.setattr(pools, "ask_workers", lambda client, function, workers: dict.fromkeys(workers, old))
    with pytest.raises(ClusterError, match=r"worker io-0 has python 2\.7"):
        pools.wait_for_pools(local, [Need("io")])


def test_workers_are_seen_whatever_the_client_asks_for_itself_at_the_moment() -> None:
    """Its own heartbeat asks without wanting workers; here every millisecond."""
    with dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}), local_cluster({"io": 2}) as client:
        assert {len(pool.workers) for _ in range(300) for pool in pools_of(client)} == {2}
        assert all(len(pools_of(client)) == 1 for _ in range(300))
