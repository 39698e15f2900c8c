"""Public placement instances: the reader, and the least load against every placement there is."""

import itertools
import json
import random

import pytest
from click.testing import CliRunner

from benchmarks.made_instances import inception, training
from heterps.cli.plan import command
from heterps.errors import PlanError
from heterps.planner.costs.instance import read_instance
from heterps.planner.solve.dag import downsets
from heterps.planner.solve.effort import NEVER, Deadline
from heterps.planner.solve.joined_pieces import joined
from heterps.planner.solve.max_load import _Cuts, _least, least_load


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
    data = random_instance(seed)
    rng = random.Random(f"idle in {seed}")
    n = sum(not each["isBackwardNode"] for each in data["nodes"])
    idle = {i for i in range(n) if rng.random() < 0.5}
    nodes = [
        each | {"cpuLatency": 0.0, "fpgaLatency": 0.0} if each["id"] % n in idle else each for each in data["nodes"]
    ]
    cost = {each["id"]: rng.choice((0.0, 0.2, 0.4)) for each in nodes}
    edges = [each | {"cost": cost[each["sourceId"]]} for each in data["edges"]]
    return data | {"nodes": nodes, "edges": edges, "maxSizePerFPGA": rng.choice((5.0, 50.0))}


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
    return instance(nodes, edges, rng.randint(0, 2), rng.randint(0, 2), rng.uniform(1, 6))


def training_instance(seed):
    """A random instance with colours that join forward ops, backward ops of a colour with and without a forward one.

    Backward ops read what later backward ops and forward ops make, or, as in public files, earlier ones.
    """
    rng = random.Random(f"training {seed}")
    n = rng.randint(1, 4)
    cost = [rng.choice((0.0, rng.uniform(0, 0.5))) for _ in range(2 * n)]

    def some(id_, **more):
        idle, free = rng.random() < 0.2, rng.random() < 0.1
        times = (0.0, 0.0) if idle else (0.0 if free else rng.uniform(0.5, 4), rng.uniform(0.1, 1))
        return node(id_, *times, supportedOnFpga=int(rng.random() < 0.9), size=rng.uniform(0, 1), **more)

    colours = [0 if rng.random() < 0.2 else i for i in range(n)]
    nodes = [some(i, colorClass=colours[i]) for i in range(n)]
    back = {i: n + i for i in range(n) if rng.random() < 0.8}
    nodes += [
        some(b, isBackwardNode=1, **({"colorClass": colours[i]} if rng.random() < 0.7 else {})) for i, b in back.items()
    ]
    edges = [edge(a, b, cost[a]) for a, b in itertools.combinations(range(n), 2) if rng.random() < 0.5]
    ends = [(back[e["sourceId"]], back[e["destId"]]) for e in edges if {e["sourceId"], e["destId"]} <= set(back)]
    turned = rng.random() < 0.8
    edges += [edge(b, a, cost[b]) if turned else edge(a, b, cost[a]) for a, b in ends]
    edges += [edge(i, b, cost[i]) for i, b in back.items() if rng.random() < 0.3]
    return instance(nodes, edges, rng.randint(0, 2), rng.randint(0, 2), rng.choice((rng.uniform(1, 4), 50.0)))


def every_load(data):
    """The load of every way to put all colours on devices in a legal order."""
    ops = {each["id"]: each for each in data["nodes"]}
    cost = {e["sourceId"]: e["cost"] for e in data["edges"]}
    colour = {i: ("colour", op["colorClass"]) if "colorClass" in op else i for i, op in ops.items()}
    every, order = list(dict.fromkeys(colour.values())), list(_in_order(data["edges"], ops, colour))
    for kinds in _kinds(data["maxFPGAs"], data["maxCPUs"]):
        for where in itertools.product(range(len(kinds)), repeat=len(every)):
            place = dict(zip(every, where, strict=True))
            if any(place[a] > place[b] for a, b in order):
                continue
            on = {i: place[colour[i]] for i in ops}
            loads = [_load(kind, {i for i in ops if on[i] == d}, ops, cost, data) for d, kind in enumerate(kinds)]
            if None not in loads:
                yield max(loads)


def _in_order(edges, ops, colour):
    """Pairs of colours of which the first may not come later: forward edges; backward ones, turned, of lone colours."""
    forward = {colour[i] for i, op in ops.items() if not op["isBackwardNode"]}
    for a, b in ((e["sourceId"], e["destId"]) for e in edges):
        if not ops[a]["isBackwardNode"] and not ops[b]["isBackwardNode"]:
            yield colour[a], colour[b]
        if ops[a]["isBackwardNode"] and ops[b]["isBackwardNode"] and not {colour[a], colour[b]} <= forward:
            yield colour[b], colour[a]


def _kinds(accelerators, cpus):
    """Every row of devices."""
    for count in range(1, accelerators + cpus + 1):
        for kinds in itertools.product(("accelerator", "cpu"), repeat=count):
            if kinds.count("accelerator") <= accelerators and kinds.count("cpu") <= cpus:
                yield kinds


def _load(kind, mine, ops, cost, data):
    """Load of a device; None if its ops cannot run there."""
    if kind == "cpu":
        return sum(ops[i]["cpuLatency"] for i in mine)
    if sum(ops[i]["size"] for i in mine) > data["maxSizePerFPGA"] or not all(ops[i]["supportedOnFpga"] for i in mine):
        return None
    over = {e["sourceId"] for e in data["edges"] if (e["sourceId"] in mine) != (e["destId"] in mine)}
    return sum(ops[i]["fpgaLatency"] for i in mine) + sum(cost[i] for i in over)


def check(data, read, name):
    """Compare what is found with every placement."""
    best = min(every_load(data), default=None)
    if best is None:
        with pytest.raises(PlanError, match="no placement fits"):
            least_load(read)
        return
    found = least_load(read)
    assert found.load == pytest.approx(best), name
    assert found.complete
    assert max(device.load for device in found.devices) == pytest.approx(found.load)
    assert sorted(i for device in found.devices for i in device.ids) == sorted(each["id"] for each in data["nodes"])
    cuts = _Cuts(read, downsets(len(read.ids), read.edges))
    assert cuts.least(best * (1 + 1e-6) + 1e-9, NEVER)[1] == pytest.approx(best), name  # a limit hides nothing below it
    assert cuts.least(best * (1 - 1e-6), NEVER) is None, name
    if len(joined(read).ids) > 1:
        few = least_load(read, most_cuts=1)
        assert few.bound <= best * (1 + 1e-9) <= few.load * (1 + 2e-9), name


@pytest.mark.parametrize(("make", "seeds"), [(random_instance, 120), (training_instance, 250)])
def test_the_load_is_the_least_of_all(saved, make, seeds):
    for seed in range(seeds):
        data = make(seed)
        check(data, read_instance(saved(data)), seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("make", [random_instance, training_instance])
def test_the_load_of_many_instances_is_the_least_of_all(saved, make):
    for seed in range(1_000, 21_000):
        data = make(seed)
        check(data, read_instance(saved(data)), seed)


def test_what_fills_all_memory_is_not_bounded_as_if_it_did_not_fit(saved):
    """Half of the ops would be on a CPU that takes a hundred times as long."""
    data = instance([node(0, 100.0, size=2.0), node(1, 100.0, size=2.0)], [edge(0, 1)], accelerators=1, room=4.0)
    read = read_instance(saved(data))
    assert _least(read) <= least_load(read).load == 2.0


def test_pieces_are_joined_only_where_that_loses_nothing(saved):
    fewer = 0
    for seed in range(250):
        data = idle_instance(seed)
        read = read_instance(saved(data))
        check(data, read, seed)
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


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_leaves_out_nothing_that_matters(saved, seed):
    """What is found from below, with few pairs of cuts, is the best of all pairs; forward alone and in training."""
    for data in (inception(3, (2, 4, 3), seed), training(inception(3, (2, 4, 3), seed))):
        read = read_instance(saved(data | {"maxFPGAs": 3}))
        cuts = _Cuts(read, downsets(len(read.ids), read.edges))
        found, least = least_load(read), cuts.least(cuts.most, NEVER)
        assert (found.load, found.gap, found.cuts) == (pytest.approx(least[1]), 0, len(cuts.members))


def test_what_a_cpu_does_in_no_time_need_not_fit_accelerators(saved):
    nodes = [node(0, 10.0, 1.0), node(1, 0.0, 100.0), node(2, 10.0, 1.0)]
    read = read_instance(saved(instance(nodes, [edge(0, 1), edge(1, 2)], 2, 1)))
    cuts = _Cuts(read, downsets(3, read.edges))
    assert cuts.least(1.2, NEVER)[1] == least_load(read).load == pytest.approx(1.1)


def test_a_graph_of_many_cuts_is_proved(saved):
    found = least_load(read_instance(saved(inception())))
    assert (found.complete, found.gap, found.cuts) == (True, 0, 28_802)
    few = least_load(read_instance(saved(inception())), most_cuts=1_000)
    assert few.bound < found.load < few.load
    assert not few.complete


def test_when_the_time_is_over_what_was_proved_is_said(saved):
    whole = least_load(read_instance(saved(inception(2))))
    for over_after in (0, 5, 40):  # looks at the clock
        ticks = itertools.count()
        found = least_load(read_instance(saved(inception(2))), deadline=Deadline(over_after, lambda t=ticks: next(t)))
        assert found.bound <= whole.load <= found.load
        assert found.complete == (found.bound == found.load)
    nowhere = instance([node(0, supportedOnFpga=0)], [], 1, 0)
    with pytest.raises(PlanError, match="no placement was found over 2 cuts"):
        least_load(read_instance(saved(nowhere)), deadline=Deadline(0))


def test_a_chain_worked_out_by_hand(saved):
    data = instance([node(i) for i in range(4)], [edge(i, i + 1) for i in range(3)])
    found = least_load(read_instance(saved(data)))
    assert found.load == pytest.approx(2.1)
    assert [device.ids for device in found.devices] == [(0, 1), (2, 3)]


def test_what_passes_by_is_paid_by_nobody_on_the_way(saved):
    """The first piece has two outputs: one for the piece behind it, a large one for the last; both ends are on CPUs."""
    on_cpu = {"cpu": 1.0, "accelerator": 50.0, "supportedOnFpga": 0}
    nodes = [node(0, **on_cpu, colorClass=1), node(1, 0.0, 0.0, colorClass=1, supportedOnFpga=0)]
    nodes += [node(2, 100.0, 1.0), node(3, **on_cpu)]
    data = instance(nodes, [edge(0, 3, 10.0), edge(1, 2), edge(2, 3)], accelerators=1, cpus=2)
    found = least_load(read_instance(saved(data)))
    assert found.load == pytest.approx(1.2)
    assert [device.kind for device in found.devices] == ["cpu", "accelerator", "cpu"]


def test_a_piece_at_the_end_is_not_parted_from_another_that_it_exchanges_much_with(saved):
    """Gradients of the second and third pass between them, though no op of one comes before one of the other."""
    nodes = [node(0), node(1, 0.0, 0.0), node(2)]
    nodes += [node(3 + i, 0.0, 0.0, isBackwardNode=1, colorClass=i) for i in (1, 2)]
    for i in (1, 2):
        nodes[i]["colorClass"] = i
    data = instance(nodes, [edge(0, 1), edge(5, 4, 5.0)], accelerators=2, cpus=0)
    assert least_load(read_instance(saved(data))).load == pytest.approx(1.1)


def test_a_piece_stays_with_those_that_it_reads_where_that_moves_less(saved):
    """It takes 0.7 from each of two and gives 1: on their side of the cut 1 is moved, on the other 1.4."""
    nodes = [node(0), node(1), node(2, 0.0, 0.0), node(3, accelerator=2.0)]
    data = instance(nodes, [edge(0, 2, 0.7), edge(1, 2, 0.7), edge(2, 3, 1.0)], accelerators=2, cpus=0)
    assert least_load(read_instance(saved(data))).load == pytest.approx(3.0)


def test_a_load_may_be_mostly_what_is_moved(saved):
    data = instance([node(0, 0.1, 0.1), node(1, 0.1, 0.1)], [edge(0, 1, 10.0)], accelerators=2, cpus=0, room=1.0)
    assert least_load(read_instance(saved(data))).load == pytest.approx(10.1)


def test_a_piece_that_is_faster_on_a_cpu_is_no_bound_by_its_time_elsewhere(saved):
    """In the order of their numbers the first three take 6 on two accelerators, in another one 5."""
    nodes = [node(i, 50.0, time) for i, time in enumerate((1.0, 5.0, 1.0))] + [node(3, 0.5, 10.0)]
    found = least_load(read_instance(saved(instance(nodes, []))))
    assert found.load == pytest.approx(5.0)
    assert found.complete


def test_memory_that_is_just_enough_is_enough(saved):
    """The same three, the second twice as large: together they fill two accelerators, and no CPU need take a part."""
    nodes = [node(i, 100.0, time, size=size) for i, (time, size) in enumerate(((1.0, 1.0), (5.0, 2.0), (1.0, 1.0)))]
    found = least_load(read_instance(saved(instance(nodes, [], room=2.0))))
    assert found.load == pytest.approx(5.0)
    assert found.complete


def test_ops_of_one_colour_stay_together(saved):
    data = instance([node(0, colorClass=7), node(1), node(2, colorClass=7)], [edge(0, 1), edge(1, 2)])
    assert least_load(read_instance(saved(data))).load == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("{", "cannot be read as JSON"),
        ([], "must be an object"),
        (instance([node(1), node(1)], []), "several nodes have the id 1: each needs one of its own"),
        (instance([], []), "nodes is empty, must have one at least"),
        (instance([node(1)], [edge(1, 2)]), "there is no node 2"),
        (instance([node(1, cpu=-1.0)], []), "cpuLatency is -1.0, must be a finite number, not negative"),
        (instance([node(1, cpu=float("nan"))], []), "cpuLatency is nan, must be a finite"),
        (instance([node(1, size=float("inf"))], []), "size is inf, must be a finite"),
        (instance([node(1, size="big")], []), "node 1: size must be given as float, is 'big'"),
        (
            instance([node(1, accelerator=1e300), node(2)], []),
            r"all fpgaLatency together are 1e\+300, more than can be",
        ),
        (instance([node(1, colorClass=[1])], []), r"node 1: colorClass must be given as int, is \[1\]"),
        (instance([node(1), node(2)], [edge(1, 2), edge(2, 1)]), "edges go round in a circle: 1 - 2 - 1"),
        (instance([node(1)], [edge(1, 1)]), "edges go round in a circle: 1 - 1"),
        (instance([node(1), node(2), node(3)], [edge(1, 2), edge(1, 3, 5.0)]), "node 1 0.1: it has one output"),
        ("[" * 100_000, "cannot be read as JSON"),
        (instance([node(1, cpu="x")], []), "node 1: cpuLatency must be given as float, is 'x'"),
        (instance([3], []), "node 3 must be an object"),
        ({**instance([node(1)], []), "maxFPGAs": None}, "maxFPGAs must be given as int, is None"),
    ],
)
def test_what_is_no_instance_is_refused(saved, data, match):
    with pytest.raises(PlanError, match=match):
        read_instance(saved(data))


def test_more_devices_than_pieces_are_of_no_use(saved):
    data = instance([node(0), node(1)], [edge(0, 1)], 10**9, 10**9)
    assert least_load(read_instance(saved(data))).load == pytest.approx(1.1)
    many = instance([node(i) for i in range(400)], [], 10**9, 10**9)
    with pytest.raises(PlanError, match="400 accelerators and 400 CPUs are too many for 400 pieces"):
        least_load(read_instance(saved(many)))


def test_what_fits_nowhere_is_named(saved):
    with pytest.raises(
        PlanError, match=r"no placement fits: ops of .* of size 10, 0 CPUs, and no accelerator takes op 3; raise"
    ):
        least_load(read_instance(saved(instance([node(3, size=11.0), node(4)], [], 2, 0))))


@pytest.mark.parametrize("rows", ["-5", "0"])
def test_numbers_of_rows_are_above_nothing(rows):
    shown = CliRunner().invoke(command, ["graphs/wide_deep.py", "--rows", rows])
    assert (shown.exit_code, f"{rows} is not a number above 0" in shown.output) == (2, True)


def test_from_the_command_line(saved):
    path = saved(instance([node(i) for i in range(4)], [edge(i, i + 1) for i in range(3)]))
    shown = CliRunner().invoke(command, [path, "--objective", "max-load"], catch_exceptions=False)
    assert "Fullest device: 2.1 (proved optimal, over all 5 cuts" in shown.output
    data = json.loads(CliRunner().invoke(command, [path, "--objective", "max-load", "--json"]).output)
    assert data["gap"] == 0


def test_without_the_objective_it_is_named(saved):
    path = saved(instance([node(0)], []))
    found = CliRunner().invoke(command, [path, "--budget", "5"])
    assert isinstance(found.exception, PlanError)
    assert "is a placement instance, not a model: plan it with --objective max-load" in str(found.exception)


def test_options_of_plans_are_refused_beside_an_instance(tmp_path):
    options = ["--objective", "max-load", "--seconds", "3", "--budget", "5", "--pin", "a=cpu", "--play"]
    found = CliRunner().invoke(command, [str(tmp_path / "instance.json"), *options])
    assert isinstance(found.exception, PlanError)
    words = "leave out --budget, --pin, --play, which would mean nothing there"
    assert f"--objective max-load reads a placement instance: {words}" in str(found.exception)


def test_the_bound_knows_that_memory_is_small(saved):
    """Forty of sixty ops fit on four accelerators; the rest takes a CPU 200, whatever the order."""
    data = instance([node(i, size=1.0, cpu=10.0) for i in range(60)], [], 4, 1)
    found = least_load(read_instance(saved(data)))
    assert found.load == pytest.approx(200.0)
    assert found.gap < 1e-8
