"""Tables with the stage that computes with them, on its device: the numbers of shard hosts, and no row crosses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from graphs.wide_deep import wide_deep
from heterps import ops
from heterps.cli import main
from heterps.errors import PlanError, TableError
from heterps.protocol.words.modes import Async
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import Shard
from heterps.tables.specs.rules import RULES, Rule
from tests import zoo
from tests.gpu.host import host_kernels, needs_gpp
from tests.unit.session.test_device_training import crossed, same, trained

pytestmark = pytest.mark.xdist_group("dask")

GPU = {"*": "gpu"}
WITH_TABLES = sorted(name for name in zoo.SMALL if any(op.kind == "lookup" for op in zoo.graph(name)))


def expected(graph: hps.Graph) -> dict[str, Any]:
    return trained(hps.Plan.fused(graph, batch_size=zoo.BATCH), engine="inline")


def rows(shard: Shard, host: int) -> dict[str, tuple[int, int]]:
    """Rows on a device, and those below; the others come down to be counted."""
    above = {name: len(group) for name, group in shard.above.items()}
    return {name: (above.get(name, -1), len(group)) for name, group in shard.groups.items()}


def predicted(made: hps.Plan, data: hps.Dataset, **options: Any) -> np.ndarray:
    with hps.launch(made, device="fake", report_s=1e9, **options) as session:
        session.fit(data)
        return np.asarray(session.predict(data))


@pytest.mark.parametrize(
    "device", ["fake", pytest.param("cpu", marks=pytest.mark.full), pytest.param("gpu:0", marks=pytest.mark.gpu)]
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "wide_deep" else pytest.mark.full) for name in WITH_TABLES]
)
def test_it_trains_as_shard_hosts_do(name: str, device: str) -> None:
    graph = zoo.graph(name)
    same(trained(zoo.staged(graph), device=device, storage=GPU), expected(graph))


@needs_gpp
@pytest.mark.full
def test_with_kernels_it_has_the_bits_of_shard_hosts() -> None:
    graph = zoo.graph("wide_deep")
    with host_kernels():
        made = trained(zoo.staged(graph), device="fake", storage=GPU)
    assert (made["prediction"] == expected(graph)["prediction"]).all()


@pytest.mark.full
def test_a_second_stage_worker_gets_rows_from_the_holder_and_sends_gradients() -> None:
    """It computes in a process of its own, or here under an address of its own: rows and gradients are host arrays."""
    made = zoo.staged(zoo.graph("wide_deep"))
    two = replace(made, stages=tuple(replace(s, units=2) if s.pool == "gpu" else s for s in made.stages))
    same(trained(two, device="fake", storage=GPU), expected(made.graph))


@pytest.mark.full
def test_stages_behind_the_first_use_them_too() -> None:
    """Lookups that a third stage computes with; the first compute stage hands on what it does not need."""
    graph = zoo.graph("wide_deep")
    io, compute = (part.ops for part in hps.partition(graph).parts)
    cuts = zoo.staged(graph, [io, compute[:-2], compute[-2:]])
    same(trained(cuts, device="fake", storage=GPU), expected(graph))


@pytest.mark.full
def test_rows_that_are_needed_where_data_is_read_come_there() -> None:
    graph = zoo.graph("wide_deep")
    io, compute = (part.ops for part in hps.partition(graph).parts)
    made = zoo.staged(graph, [[*io, *compute[:3]], compute[3:]])
    with hps.launch(made, device="fake", storage=GPU) as session:
        assert session.job.on_gpu
        assert not session.job.lent
    same(trained(made, device="fake", storage=GPU), expected(graph))


def test_rows_are_on_the_device_and_below_it_and_nowhere_else() -> None:
    made = zoo.staged(zoo.graph("two_emb"))
    with hps.launch(made, device="fake", storage={"left*": "gpu"}, mode="sync", report_s=1e9) as session:
        list(session.train(zoo.data(made.graph)))
        server, holder = session.engine.each_shard(rows)
    on_gpu, other = sorted(holder, key=lambda name: "left" not in name)
    assert holder[on_gpu][0] == holder[on_gpu][1] > 0
    assert server[on_gpu] == (-1, 0)
    assert holder[other] == (-1, 0)
    assert server[other][1] > 0


def test_no_row_crosses() -> None:
    """Ids go up once more, for the pull, which waits for the number of those that are not there; no values cross."""
    made = zoo.staged(zoo.graph("wide_deep"))
    known = hps.arrays({name: np.repeat(column[:1], 80, 0) for name, column in _columns(made.graph).items()})
    before, after = (_steady(made, known, **options) for options in ({"dense_on": "stage"}, {"storage": GPU}))
    assert (before.to_device, before.to_host, before.syncs) == (1, 1, 1)
    assert (after.to_device, after.to_host, after.syncs) == (2, 2, 2)
    width = sum(group.width for group in _groups(made.graph))
    assert before.bytes_to_host - after.bytes_to_host >= 4 * width * 3 - 12  # three ids; less three counts
    assert after.bytes_to_device <= before.bytes_to_device - 4 * width * 3 + 8 * 3


def _columns(graph: hps.Graph) -> dict[str, Any]:
    data = zoo.data(graph, 80)
    return {op.name: data.columns[op.name] for op in graph.inputs}


def _groups(graph: hps.Graph) -> Any:
    from heterps.runtime.batch.model import Model

    return Model(graph).groups


def _steady(made: hps.Plan, data: hps.Dataset, **options: Any) -> Any:
    """Copies and waits of a batch whose rows have all been met."""
    from heterps.device.fake import TRAFFIC, Traffic

    found = []
    with hps.launch(made, mode="sync", report_s=1e9, device="fake", **options) as session:
        session.fit(data)
        for epochs in (1, 3):
            TRAFFIC.reset()
            session.fit(data, epochs=epochs)
            found.append(replace(TRAFFIC))
    batches = 2 * (80 // made.batch_size)
    return Traffic(**{name: (value - vars(found[0])[name]) // batches for name, value in vars(found[1]).items()})


@pytest.fixture(params=["3kB", pytest.param("1kB", marks=pytest.mark.full)])
def little_room(request: pytest.FixtureRequest) -> Iterator[None]:
    """For a few batches, or for less than one."""
    with dask.config.set({"heterps.worker.gpu-rows": request.param}):
        yield


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.full)])
def test_a_table_that_does_not_fit_takes_turns(little_room: None, mode: str) -> None:
    made = zoo.staged(zoo.graph("wide_deep"))
    data = zoo.data(made.graph, 10 * zoo.BATCH)
    with hps.launch(made, device="fake", storage=GPU, mode=mode, report_s=1e9) as session:
        session.fit(data)
        turns = session.engine.each_shard(lambda shard, host: sum(group.turns for group in shard.above.values()))
        found = np.asarray(session.predict(data))
    assert turns[1] > 2
    if mode == "sync":
        np.testing.assert_allclose(found, predicted(made, data, mode=mode), rtol=1e-5, atol=1e-6)


def test_a_device_without_room_for_a_row_is_refused_by_name() -> None:
    made = zoo.staged(zoo.graph("wide_deep"))
    with (
        dask.config.set({"heterps.worker.gpu-rows": "60B"}),
        hps.launch(made, device="fake", storage=GPU, mode="sync") as session,
        pytest.raises(hps.HeterpsError, match=r"group 'deep\+wide': 1 rows take .* bytes of the device, which has 60"),
    ):
        session.fit(zoo.data(made.graph))


@pytest.mark.full
def test_units_of_several_batches_are_added_up_there() -> None:
    made = zoo.staged(zoo.graph("wide_deep"))
    data = zoo.data(made.graph, 5 * zoo.BATCH)
    mode = Async(depth=1, merge=2)
    found = predicted(made, data, mode=mode, storage=GPU)
    np.testing.assert_allclose(found, predicted(made, data, mode=mode), rtol=1e-5, atol=1e-6)


@pytest.mark.full
def test_lanes_are_added_up_there_in_their_order() -> None:
    made = replace(zoo.staged(zoo.graph("wide_deep")), lanes=3)
    data = zoo.data(made.graph, 12 * zoo.BATCH)
    found = predicted(made, data, mode="sync", storage=GPU)
    np.testing.assert_allclose(found, predicted(made, data, mode="sync"), rtol=1e-5, atol=1e-6)


@pytest.mark.full
def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made, held = zoo.staged(zoo.graph("wide_deep")), list[ShardHost]()
    keep = ShardHost.keep

    def noted(self: ShardHost, *args: Any) -> None:
        held.append(self)
        keep(self, *args)

    monkeypatch.setattr(ShardHost, "keep", noted)
    with hps.launch(made, device="fake", storage=GPU, mode="async", report_s=1e9) as session:
        session.fit(zoo.data(made.graph, 10 * zoo.BATCH))
        assert len(held) == 10
        assert held[0].holder is not None
        assert len(held[0].holder) == 0


def test_a_cut_has_what_is_on_the_device_and_any_run_goes_on_from_it(tmp_path: Path) -> None:
    zoo.check_cuts(zoo.staged(zoo.graph("wide_deep")), tmp_path, {"storage": GPU}, [{"storage": GPU}, {}])


@pytest.mark.full
@pytest.mark.parametrize("storage", ["gpu", "gpu+ssd"])
def test_a_second_training_goes_on_with_them(storage: str) -> None:
    made, found = zoo.staged(zoo.graph("wide_deep")), []
    for options in ({}, {"storage": {"*": storage}}):
        with hps.launch(made, device="fake", mode="sync", report_s=1e9, **options) as session:
            for _ in range(2):
                session.fit(zoo.data(made.graph))
                found.append(np.asarray(session.predict(zoo.data(made.graph))))
    np.testing.assert_allclose(found[2:], found[:2], rtol=1e-5, atol=1e-6)


@pytest.mark.full
def test_a_plan_without_another_worker_keeps_them_in_memory() -> None:
    graph = zoo.graph("wide_deep")
    fused = hps.Plan.fused(graph, batch_size=zoo.BATCH)
    same(trained(fused, engine="inline", storage=GPU), expected(graph))


@RULES.add
class Hosts(Rule):
    """Has no CUDA body."""

    def numbers(self, step: int) -> tuple[float, ...]:
        return ()


def test_what_cannot_be_is_refused() -> None:
    made = zoo.staged(zoo.graph("wide_deep"))
    with pytest.raises(PlanError, match=r"storage: deep=moon is not known; rows can be in memory, ssd, gpu, gpu\+ssd"):
        hps.launch(made, storage={"deep": "moon"})
    with pytest.raises(PlanError, match="'shallow' matches no table; there are"):
        hps.launch(made, storage={"shallow": "gpu"})
    with pytest.raises(PlanError, match=r"'deep' says gpu and 'wide' says ssd of .* share rows"):
        hps.launch(made, storage={"deep": "gpu", "wide": "ssd"})
    with pytest.raises(TableError, match="rule Hosts has no CUDA body"):
        hps.launch(made, storage=GPU, sparse=Hosts())
    ids, y = ops.input("ids", shape=(2,), dtype="uint64"), ops.input("y")
    vectors = ops.lookup(ids, table="t", dim=4, budget=100, when_full="least_recent", storage="gpu")
    evicting = hps.Graph(loss=ops.logloss(ops.dense(ops.concat(vectors), 1), y))
    with pytest.raises(TableError, match="group 't' has when_full='least_recent', which rows on a device do not know"):
        hps.launch(zoo.staged(evicting))


@pytest.mark.full
def test_a_name_counts_before_a_pattern() -> None:
    graph = zoo.graph("two_emb")
    tables = sorted({op.attrs["table"] for op in graph if op.kind == "lookup"})
    made = hps.launch(zoo.staged(graph), device="fake", storage={tables[0]: "gpu", "*": "memory"})
    with made as session:
        assert [op.attrs["storage"] for op in session.plan.graph if op.kind == "lookup"] == ["gpu", "memory"]


@pytest.mark.full
def test_the_command_takes_it(tmp_path: Path) -> None:
    zoo.staged(wide_deep(slots=19, dense=5, dim=2, hidden=(8,)), batch_size=4096).save(tmp_path / "plan.json")
    words = ["train", str(tmp_path / "plan.json"), "--data", "adult:test", "--device", "fake", "--storage", "deep=gpu"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    refused = CliRunner().invoke(main, [*words[:-1], "deep=moon"])
    assert refused.exit_code
    assert "rows can be in" in refused.output


@pytest.mark.full
def test_copies_of_a_fused_run_are_as_before() -> None:
    traffic = crossed(hps.Plan.fused(zoo.graph("wide_deep"), batch_size=zoo.BATCH), 4, storage=GPU)
    assert (traffic.to_device, traffic.to_host, traffic.syncs) == (1, 1, 1)
