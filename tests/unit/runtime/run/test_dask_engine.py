"""The engine contract on an in-process Dask cluster, and what only a cluster has."""

import gc
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import pytest

import heterps as hps
from heterps.errors import ClusterError
from heterps.protocol.client.state import ClientState
from heterps.protocol.words import instructions as do
from heterps.protocol.words.layout import Layout
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.workers.io_actor import IoActor
from heterps.runtime.workers.shared_credits import SharedCredits
from heterps.runtime.workers.stage import StageService
from heterps.stages import partition
from heterps.testing.engine_contract import EngineContract, plan, same, trained
from heterps.testing.small_model import data, graph

pytestmark = pytest.mark.xdist_group("dask")


class TestDask(EngineContract):
    def launch(self, plan: hps.Plan, **options: Any) -> hps.Session:
        return hps.launch(plan, engine="dask", **options)


def staged(*cuts: str, **rest: Any) -> hps.Plan:
    """A plan whose compute ops run in stages of their own, cut before the named ops."""
    fused = hps.Plan.fused(graph(4, 0.0), batch_size=64, **rest)
    io, *compute = (part.ops for part in partition(fused.graph).parts)
    ops = [op for part in compute for op in part]
    bounds = [0, *(ops.index(cut) for cut in cuts), len(ops)]
    pieces = [tuple(io), *(tuple(ops[a:b]) for a, b in pairwise(bounds))]
    (stage,), pool = fused.stages, fused.pools[0]
    gpu = replace(pool, name="compute")
    stages = tuple(
        replace(stage, name=f"stage {i}", layers=(), ops=ops, pool=gpu.name if i == 1 else pool.name, units=2)
        for i, ops in enumerate(pieces)
    )
    return replace(fused, stages=stages, pools=(pool, gpu))


@pytest.mark.parametrize("cuts", [(), ("hidden",)])
def test_stages_elsewhere_give_the_bits_of_one_thread(cuts: tuple[str, ...]) -> None:
    with hps.launch(plan(lanes=3), engine="inline", mode="sync") as session:
        expected = trained(session)
    with hps.launch(staged(*cuts, lanes=3, shard_hosts=2), mode="sync") as session:
        assert same(trained(session), expected)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_gives_the_same_bits(workers: int) -> None:
    with hps.launch(plan(lanes=5), engine="inline", mode="sync") as session:
        expected = trained(session, epochs=2)
    with hps.launch(plan(lanes=5, workers=workers), mode="sync") as session:
        assert same(trained(session, epochs=2), expected)


def test_merged_pushes_count_every_batch_once() -> None:
    with hps.launch(plan(workers=2), mode=hps.Async(depth=2, merge=3)) as session:
        last = list(session.train(data(), epochs=2))[-1]
    assert last.samples == 3000


def test_stages_behind_a_cache_count_every_batch_once_and_learn() -> None:
    with hps.launch(staged(lanes=2, shard_hosts=2), cache_rows=60, staleness=5, sparse=hps.SGD(lr=0.5)) as session:
        last = list(session.train(data(), epochs=6))[-1]
        assert session.evaluate(data(seed=8))["auc"] > 0.9
    assert last.samples == 6 * 1500
    assert 0 < last.exchange.caches["vectors, wide"].oldest <= 5


def benches() -> int:
    return sum(isinstance(held, Workbench) for held in gc.get_objects())


def test_one_run_after_another_keeps_no_buffers_of_those_before() -> None:
    gc.collect()
    gc.disable()  # what goes must go by itself: the next collection may be minutes away
    try:
        with hps.launch(plan(workers=2), mode=hps.Async(depth=2)) as session:
            for _ in range(4):
                next(iter(session.train(data(), 1000)))  # ends with batches in flight
                deadline = time.monotonic() + 20
                while benches() and time.monotonic() < deadline:
                    time.sleep(0.02)
                assert benches() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("every", [None, 3])
def test_the_next_split_takes_the_place_of_the_one_before(
    every: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is given its next Split while it computes the last batches of one, but computes one at a time.

    With cuts, the run waits for an answer of attempts that wait for each other's place.
    """
    made, ending = [], []
    good, told = Workbench.__init__, IoActor._at_end
    monkeypatch.setattr(Workbench, "__init__", lambda self, *a, **k: (made.append(1), good(self, *a, **k))[1])
    monkeypatch.setattr(IoActor, "_at_end", lambda self, n: (ending.append(n), told(self, n))[1])
    options = {} if every is None else {"checkpoint": tmp_path, "every_batches": every}
    with hps.launch(plan(workers=2), mode=hps.Async(depth=2), **options) as session:
        last = list(session.train(data(split=100), epochs=2))[-1]
    assert last.samples == 3000
    assert len(ending) >= 30
    assert every or len(made) == 2


def test_a_missing_pool_is_named_before_anything_runs() -> None:
    soon = dask.config.set({"heterps.timeouts.workers": "500ms"})
    with (
        local_cluster({"server": 1}) as client,
        soon,
        pytest.raises(ClusterError, match="pool 'io' has 0 of 1 workers"),
    ):
        hps.launch(plan(), client=client)


def test_rows_on_disk_train_as_rows_in_memory() -> None:
    results = []
    for storage in ("memory", "ssd"):
        chosen = hps.Plan.fused(graph(storage=storage), batch_size=64, shard_hosts=2)
        with hps.launch(chosen, mode="sync") as session:
            results.append(trained(session))
    assert same(*results)


def test_a_slow_compute_worker_gets_fewer_batches() -> None:
    """By counts, not by time: with one of three workers five times as slow, it computes well under a third."""
    from benchmarks.balance import throughput

    steps, _ = throughput(0.01, slow=0.05, seconds=1.0)
    assert steps["compute-0"] < 0.2 * sum(steps.values())
    assert min(steps["compute-1"], steps["compute-2"]) > 0.25 * sum(steps.values())


def test_short_splits_are_shared_between_compute_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt of one batch asks one stage worker: all attempts asking the same first would leave the rest idle."""
    steps, step = Counter[str](), StageService.step
    monkeypatch.setattr(StageService, "step", lambda self, *a: (steps.update([self.where]), step(self, *a))[1])
    pools = {"server": 1, "io": 2, "compute": 3}
    with local_cluster(pools) as client, hps.launch(staged(), client=client, mode="async") as session:
        last = list(session.train(data(split=64), epochs=2))[-1]
    assert sum(steps.values()) >= last.batches > 40
    assert len(steps) == 3
    assert min(steps.values()) > last.batches / 6


def test_what_an_attempt_leaves_behind_is_not_counted_for_ever() -> None:
    """Else shared credits would hold a stage worker for busy that nobody uses."""
    credits = SharedCredits()
    layout = Layout(1, (1,), (1,), (0,), ("a", "b"))
    run = do.RunSplit(1, 1, "w", 0, 0, 0, 0, 0, None, 0, (0, 0), layout)
    client = ClientState(run, hps.Async(), credits)
    client._compute(0, 1, 2)
    assert sum(credits.waiting.values()) == 3
    client.close()
    assert credits.waiting == {}


def test_the_dashboard_names_what_runs() -> None:
    with hps.launch(staged()) as session:
        trained(session)
        client = session.engine.client  # type: ignore[attr-defined]
        prefixes = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    actors = {f"heterps-{kind}Actor" for kind in ("Host", "Io", "Stage")}
    assert prefixes == {"heterps-split", "heterps-infer", *actors}
