"""The planner knows what each way costs, and chooses the cheaper one where nothing is pinned."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from graphs.resnet import resnet
from graphs.wide_deep import wide_deep
from heterps.cli import main
from heterps.hardware import Device, Hardware, Pool
from heterps.planner import Plan, plan
from heterps.planner.costs.way_costs import choose_ways, dense_way_costs
from heterps.planner.goals import MaxThroughput
from heterps.planner.planner import Request
from heterps.planner.ways import resolve_ways
from heterps.protocol.words.modes import Async, Sync


def cluster(workers: int = 4, network: float = 1.25e8, memory: float = 64e9) -> Hardware:
    device = Device("core", "cpu", {"float32": 5e10}, memory, 1e10, network, cores=1, price_per_hour=1.0)
    return Hardware((Pool("cpu", device, cap=workers), Pool("server", device, cap=1, serves=True)))


def costs_of(graph, hardware, made: Plan):
    return dense_way_costs(Request(graph, hardware, MaxThroughput(), (made.batch_size,)).costs(made.batch_size), made)


def planned(graph, hardware=None, mode=None, **rest) -> Plan:
    return plan(graph, hardware or cluster(), batch_size=32, mode=mode or Sync(), seconds=5, **rest)


def test_large_layers_on_slow_links_are_all_reduced():
    made = planned(resnet(18, width=16))
    assert made.is_fused
    assert sum(made.units.values()) > 1
    assert made.parameters == {"*": "allreduce"}
    assert "parameters: * allreduce" in made.report()
    assert "dense parameters by way (the cheapest is chosen): table" in made.report().replace("\n", " ")


def by_hand(graph, hardware) -> Plan:
    return Plan.fused(graph, batch_size=32, workers=4, pool=hardware.pools[0], shard_pool="cpu", mode=Sync())


def test_rows_stay_on_hosts_while_layers_are_all_reduced():
    graph, hardware = wide_deep(slots=4, dense=3, dim=4, hidden=(512, 512)), cluster()
    ways = costs_of(graph, hardware, by_hand(graph, hardware))
    chosen = choose_ways(graph, ways)
    assert chosen == dict.fromkeys(["fc0", "fc1", "out"], "allreduce")
    resolved = resolve_ways(graph, chosen)
    assert resolved["fc0.weight"].kind == "allreduce"
    assert resolved["deep"].kind == resolved["wide"].kind == "table"


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ({"mode": Async()}, "it takes Sync mode, the plan is async"),
        ({"hardware": cluster(1)}, "there is one worker only"),
        ({"parameters": {"*": "table"}}, "dense parameters by way (pinned)"),
    ],
    ids=["async", "one worker", "pinned"],
)
def test_tables_are_kept_where_they_must_be(rest, why):
    made = planned(resnet(18, width=16), **rest)
    assert set(made.parameters.values()) <= {"table"}
    assert why in " ".join(made.assumptions)


def in_stages(graph, hardware, *parts, lanes: int = 4, workers: int = 3) -> Plan:
    """A plan that reads on four workers and computes the ops of each part on others."""
    fused = replace(by_hand(graph, hardware), lanes=lanes)
    (stage,) = fused.stages
    rest = tuple(op for op in stage.ops if not any(op in part for part in parts))
    pieces = [(rest, 4), *((tuple(part), workers) for part in parts)]
    return replace(fused, stages=tuple(replace(stage, layers=(), ops=ops, units=units) for ops, units in pieces))


DENSE = ("fc0", "relu0", "fc1", "relu1", "out")


def test_workers_of_a_stage_may_all_reduce_among_themselves():
    graph, hardware = wide_deep(slots=4, dense=3, dim=4, hidden=(512, 512)), cluster()
    table, group = costs_of(graph, hardware, in_stages(graph, hardware, DENSE))
    assert not group.barred
    size = 4.0 * Request(graph, hardware, MaxThroughput(), (32,)).costs(32).dense_size
    assert group.worker_bytes == pytest.approx(2 * size * 2 / 3 * (1 + 4 / 3))  # three of them, four lanes
    assert table.worker_bytes == pytest.approx(2 * size * 4 / 3)


@pytest.mark.parametrize(
    ("parts", "rest", "why"),
    [
        ((DENSE[:2], DENSE[2:]), {}, "it goes between the workers of stage 1, but fc1 is in stage 2"),
        ((DENSE[2:],), {}, "it goes between the workers of stage 1, but fc0 is in stage 0"),
        ((DENSE,), {"lanes": 2}, "each lane computes on one worker, and 2 lanes leave some of 3 idle"),
        ((DENSE,), {"workers": 1}, "there is one worker only"),
    ],
    ids=["two stages", "where data is read", "few lanes", "one worker"],
)
def test_stages_that_cannot_all_reduce_say_why(parts, rest, why):
    graph, hardware = wide_deep(slots=4, dense=3, dim=4, hidden=(512, 512)), cluster()
    assert costs_of(graph, hardware, in_stages(graph, hardware, *parts, **rest))[1].barred == why


def test_bytes_follow_from_lanes_and_workers():
    graph, hardware = resnet(18, width=4), cluster()
    table, group = costs_of(graph, hardware, by_hand(graph, hardware))
    size = 4.0 * Request(graph, hardware, MaxThroughput(), (32,)).costs(32).dense_size
    assert table.worker_bytes == 2 * size  # parameters come, gradients go
    assert table.host_bytes == 8 * size  # for all four lanes
    assert group.worker_bytes == 4 * size * 3 / 4  # gradients and sums, out and in, less its own quarter
    assert group.seconds < table.seconds


def test_the_command_line_says_what_it_chose(tmp_path):
    (tmp_path / "hw.toml").write_text(cluster().to_toml())
    words = ["plan", "graphs/resnet.py:resnet", "--set", "width=16", "--batch-size", "32", "--mode", "sync"]
    found = CliRunner().invoke(main, [*words, "--hardware", str(tmp_path / "hw.toml"), "--seconds", "5"])
    assert found.exit_code == 0, found.output
    assert "sync mode" in found.output
    assert "parameters: * allreduce" in found.output
    assert "allreduce" in found.output.split("dense parameters by way")[1]
