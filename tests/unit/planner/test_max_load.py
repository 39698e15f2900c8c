"""Public placement instances: the reader, and the least load against every placement there is."""

import itertools
import json
import random

import pytest
from click.testing import CliRunner

from heterps.cli.plan import command
from heterps.errors import PlanError
from heterps.planner.costs.instance import read_instance
from heterps.planner.solve.joined_pieces import joined
from heterps.planner.solve.max_load import least_load


def node(id_, cpu=4.0, accelerator=1.0, **more):
    return {
        "id": id_,
        "supportedOnFpga": 1,
        "cpuLatency": cpu,
        "fpgaLatency": accelerator,
        "isBackwardNode": 0,
        "size": 1.0,
    } | more


def edge(a, b, cost=0.1):
    return {"sourceId": a, "destId": b, "cost": cost}


def instance(nodes, edges, accelerators=2, cpus=1, room=10.0):
    return {"maxSizePerFPGA": room, "maxFPGAs": accelerators, "maxCPUs": cpus, "nodes": nodes, "edges": edges}


@pytest.fixture
def saved(tmp_path):
    def save(data):
        path = tmp_path / "instance.json"
        path.write_text(json.dumps(data) if not isinstance(data, str) else data)
        return str(path)

    return save


def idle_instance(seed):
    """A random instance in which many ops take no time and much is moved in no time; where memory may not decide."""
    data, n = random_instance(seed)
    rng = random.Random(f"idle in {seed}")
    idle = {i for i in range(n) if rng.random() < 0.5}
    nodes = [
        each | {"cpuLatency": 0.0, "fpgaLatency": 0.0} if each["id"] % n in idle else each for each in data["nodes"]
    ]
    cost = {each["id"]: rng.choice((0.0, 0.2, 0.4)) for each in nodes}
    edges = [each | {"cost": cost[each["sourceId"]]} for each in data["edges"]]
    return data | {"nodes": nodes, "edges": edges, "maxSizePerFPGA": rng.choice((5.0, 50.0))}, n


SIZES = [(0.5, 0.1), (0.1, 0.5)]  # of what a piece reads, and makes


def random_instance(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 5)
    cost = [rng.uniform(0, 0.5) for _ in range(n)]
    nodes = [
        node(i, rng.uniform(1, 5), rng.uniform(0.1, 1), supportedOnFpga=int(rng.random() < 0.9), size=rng.uniform(0, 1))
        for i in range(n)
    ]
    edges = [edge(a, b, cost[a]) for a, b in itertools.combinations(range(n), 2) if rng.random() < 0.5]
    if rng.random() < 0.4:  # a backward op for each forward op, edges turned round
        nodes += [node(n + i, rng.uniform(1, 5), rng.uniform(0.1, 1), isBackwardNode=1, colorClass=i) for i in range(n)]
        edges += [edge(n + e["destId"], n + e["sourceId"], 0.2) for e in edges]
        for each in nodes[:n]:
            each["colorClass"] = each["id"]
    return instance(nodes, edges, rng.randint(0, 2), rng.randint(0, 2), rng.uniform(1, 6)), n


def every_load(data, n):
    """The load of every way to put n forward ops, with their backward ops, on devices in a legal order."""
    ops = {each["id"]: each for each in data["nodes"]}
    cost = {e["sourceId"]: e["cost"] for e in data["edges"]}
    k, cpus = data["maxFPGAs"], data["maxCPUs"]
    for count in range(1, k + cpus + 1):
        for kinds in itertools.product(("accelerator", "cpu"), repeat=count):
            if kinds.count("accelerator") > k or kinds.count("cpu") > cpus:
                continue
            for place in itertools.product(range(count), repeat=n):
                if any(
                    place[e["sourceId"]] > place[e["destId"]]
                    for e in data["edges"]
                    if max(e["sourceId"], e["destId"]) < n
                ):
                    continue
                loads = []
                for device, kind in enumerate(kinds):
                    mine = {i for i in ops if place[i % n] == device}
                    if kind == "cpu":
                        loads.append(sum(ops[i]["cpuLatency"] for i in mine))
                        continue
                    if sum(ops[i]["size"] for i in mine) > data["maxSizePerFPGA"] or not all(
                        ops[i]["supportedOnFpga"] for i in mine
                    ):
                        break
                    over = {e["sourceId"] for e in data["edges"] if (e["sourceId"] in mine) != (e["destId"] in mine)}
                    loads.append(sum(ops[i]["fpgaLatency"] for i in mine) + sum(cost[i] for i in over))
                else:
                    yield max(loads)


def test_the_load_is_the_least_of_all(saved):
    for seed in range(150):
        data, n = random_instance(seed)
        best = min(every_load(data, n), default=None)
        if best is None:
            with pytest.raises(PlanError, match="no placement fits"):
                least_load(read_instance(saved(data)))
            continue
        found = least_load(read_instance(saved(data)))
        assert found.load == pytest.approx(best), seed
        assert found.complete
        assert max(device.load for device in found.devices) == pytest.approx(found.load)
        assert sorted(i for device in found.devices for i in device.ids) == sorted(each["id"] for each in data["nodes"])
        few = least_load(read_instance(saved(data)), most_cuts=1) if n > 1 else found
        assert few.bound <= best * (1 + 1e-9) <= few.load * (1 + 2e-9)


def test_pieces_are_joined_only_where_that_loses_nothing(saved):
    fewer = 0
    for seed in range(250):
        data, n = idle_instance(seed)
        best = min(every_load(data, n), default=None)
        if best is None:
            continue
        read = read_instance(saved(data))
        found = least_load(read)
        assert found.load == pytest.approx(best), seed
        assert sorted(i for device in found.devices for i in device.ids) == sorted(each["id"] for each in data["nodes"])
        fewer += len(joined(read).ids) < len(read.ids)
    assert fewer > 50


def test_a_piece_that_takes_no_time_stays_with_what_it_reads_if_that_is_large(saved):
    nodes = [node(0), node(1, 0.0, 0.0), node(2)]
    found = [least_load(read_instance(saved(instance(nodes, [edge(0, 1, a), edge(1, 2, b)], 2, 0)))) for a, b in SIZES]
    assert [each.load for each in found] == [pytest.approx(1.1), pytest.approx(1.1)]
    assert [each.cuts for each in found] == [4, 3]


def test_what_takes_no_time_does_not_multiply_cuts(saved):
    """Twelve layers, each with an output that nobody reads and a state that takes no time: 2^24 cuts and more."""
    layers, ends, states = range(12), range(12, 24), range(24, 36)
    idle = [node(i, 0.0, 0.0, size=0.0) for i in (*ends, *states)]
    chain = [edge(i, i + 1) for i in layers[:-1]]
    edges = chain + [edge(i, 12 + i) for i in layers] + [edge(24 + i, i, 0.0) for i in layers]
    found = least_load(read_instance(saved(instance([*(node(i) for i in layers), *idle], edges, 3, 0, 50.0))))
    assert found.complete
    assert (found.cuts, found.load) == (13, pytest.approx(4.2))


def test_a_chain_worked_out_by_hand(saved):
    data = instance([node(i) for i in range(4)], [edge(i, i + 1) for i in range(3)])
    found = least_load(read_instance(saved(data)))
    assert found.load == pytest.approx(2.1)
    assert [device.ids for device in found.devices] == [(0, 1), (2, 3)]


def test_ops_of_one_colour_stay_together(saved):
    data = instance([node(0, colorClass=7), node(1), node(2, colorClass=7)], [edge(0, 1), edge(1, 2)])
    assert least_load(read_instance(saved(data))).load == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("{", "cannot be read as JSON"),
        ([], "must be an object"),
        (instance([node(1), node(1)], []), "id of its own"),
        (instance([], []), "at least one"),
        (instance([node(1)], [edge(1, 2)]), "there is no node 2"),
        (instance([node(1, cpu=-1.0)], []), "cpuLatency is -1.0, must not be negative"),
        (instance([node(1, cpu="x")], []), "node 1: cpuLatency must be given as float, is 'x'"),
        (instance([3], []), "node 3 must be an object"),
        ({**instance([node(1)], []), "maxFPGAs": None}, "maxFPGAs must be given as int, is None"),
    ],
)
def test_what_is_no_instance_is_refused(saved, data, match):
    with pytest.raises(PlanError, match=match):
        read_instance(saved(data))


def test_from_the_command_line(saved):
    path = saved(instance([node(i) for i in range(4)], [edge(i, i + 1) for i in range(3)]))
    shown = CliRunner().invoke(command, [path, "--objective", "max-load"], catch_exceptions=False)
    assert "Fullest device: 2.1 (proved optimal, over all 5 cuts" in shown.output
    data = json.loads(CliRunner().invoke(command, [path, "--objective", "max-load", "--json"]).output)
    assert data["gap"] == 0
