"""Plans of real graphs on described hardware."""

import json
from dataclasses import replace

import numpy as np
import pytest

import heterps as hps
from graphs.ctrdnn import ctrdnn
from graphs.dlrm import dlrm
from graphs.wide_deep import wide_deep
from heterps import ops
from heterps.errors import PlanError, UnknownKindError
from heterps.hardware import Device, Hardware, Host, Link, Pool
from heterps.planner import (
    FixedRate,
    MaxThroughput,
    MinCost,
    Plan,
    Profile,
    Rates,
    Request,
    Sample,
    Solver,
    compare,
    frontier,
    plan,
    play,
    register_solver,
    solver,
)
from heterps.planner.costs.expectation import by_hand, forecast
from heterps.planner.costs.profile import Line
from heterps.planner.costs.sample import Growth
from heterps.planner.planner import BATCH_SIZES
from heterps.planner.show.explain import explain
from heterps.planner.tiers import with_storage
from heterps.stages.lowering import lower


def core(**changes):
    figures = {"flops": {"float32": 1e11}, "memory_bytes": 8e9, "memory_bytes_per_s": 2e10, "network_bytes_per_s": 1e10}
    return Device(**{"name": "core", "kind": "cpu", **figures, **changes})


def one_host(cores=2, **changes):
    host = Host("box", cores, 16e9, 4e10)
    return Hardware((Pool("cpu", core(**changes), cap=cores, host="box"),), (host,))


def check_whole(made: Plan):
    """Every op of the lowered graph in one stage, everything read from the same or an earlier stage."""
    low = lower(made.graph).graph
    where = {op: i for i, stage in enumerate(made.stages) for op in stage.ops}
    assert sorted(where) == sorted(op.name for op in low)
    assert all(where[source] <= where[op.name] for op in low for source in op.inputs)


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (MinCost(2e5), "fewest units per row with at least 200,000 rows/s, of plans for at most 6 units"),
        (FixedRate(2e5), "fewest units for 200,000 rows/s as they arrive"),
        (MaxThroughput(3.0), "most rows/s with the given inventory for at most 3 units"),
        (MaxThroughput(3.0), "3.00 of the budget of 3 units is spent"),
    ],
)
def test_where_nothing_has_a_price_units_are_spoken_of(goal, said):
    bare = Hardware((Pool("cpu", core(flops={"float32": 2e12}), cap=40),))
    made = plan(wide_deep(), bare, goal=goal, batch_size=32_768)
    assert said in made.assumptions
    assert "an hour" not in f"{made.assumptions} {made.certificate.proof}"


def test_remedies_speak_of_units_where_nothing_has_a_price():
    bare = Hardware((Pool("cpu", core(), cap=1),))
    with pytest.raises(PlanError, match=r"raise the cap of pool 'cpu' from 1 to 2 and the budget: 2 units"):
        plan(wide_deep(), bare, goal=MaxThroughput(1.0), batch_size=1024)


def test_workers_that_train_on_rows_of_their_own_run_all_layers(rented):
    """No cluster runs such a plan of several stages; one was proposed, and played at a fifth of its forecast."""
    asked = {"goal": MinCost(1e6), "batch_size": 32_768}
    assert not plan(ctrdnn(), rented, **asked).is_fused
    made = plan(ctrdnn(), rented, **asked, mode=hps.Geo(3))
    assert made.is_fused
    assert "mode geo, as was asked for: plans of one stage, as every worker trains on rows of its own" in (
        made.assumptions
    )
    assert made.certificate.gap == 0
    assert plan(ctrdnn(), rented, **asked, mode=hps.Geo(3), pins={"*": "cpu"}).certificate.value == (
        pytest.approx(made.certificate.value)
    )
    with pytest.raises(PlanError, match=r"run all layers, and no pool may\n  1\. drop the pins"):
        plan(ctrdnn(), rented, **asked, mode=hps.Geo(3), pins={"fc*": "gpu"})


def test_tables_that_travel_by_geo_take_a_plan_of_one_stage(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(1e6), batch_size=32_768, parameters={"embedding": "geo:5"})
    assert made.is_fused
    assert made.mode.adds


def test_one_machine_gets_the_fused_plan():
    made = plan(wide_deep(), one_host(), batch_size=4096)
    assert made.is_fused
    assert made.units == {"cpu": 2}
    assert made.forecast.bottleneck == "cores of host box"
    assert made.certificate.gap == 0
    check_whole(made)


def test_pools_on_one_host_share_its_cores():
    host = Host("box", 2, 16e9, 4e10)
    two = Hardware((Pool("io", core(), cap=2, host="box"), Pool("compute", core(name="b"), cap=2, host="box")), (host,))
    together = plan(wide_deep(), two, batch_size=4096).forecast.rows_per_second
    alone = plan(wide_deep(), one_host(), batch_size=4096).forecast.rows_per_second
    assert together == pytest.approx(alone, rel=1e-6)  # four workers on two cores do no more than two
    apart = replace(two, pools=tuple(replace(pool, host=None) for pool in two.pools), hosts=())
    assert plan(wide_deep(), apart, batch_size=4096).forecast.rows_per_second > 1.3 * alone


def test_memory_bandwidth_of_a_host_is_shared():
    slow = Hardware(one_host(8).pools, (Host("box", 8, 16e9, 1e9),))
    made = plan(wide_deep(), slow, batch_size=4096)
    assert made.forecast.bottleneck == "memory bandwidth of host box"


@pytest.mark.parametrize("graph", [wide_deep(), ctrdnn(), dlrm()], ids=["wide_deep", "ctrdnn", "dlrm"])
@pytest.mark.parametrize("goal", [MinCost(2e6), FixedRate(5e5), MaxThroughput(40.0)], ids=["cost", "rate", "budget"])
def test_plans_are_whole_and_consistent(graph, goal, rented):
    made = plan(graph, rented, goal=goal, batch_size=8192)
    forecast, certificate = made.forecast, made.certificate
    check_whole(made)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    if goal.target is not None:
        assert forecast.rows_per_second >= goal.target * (1 - 1e-6)
        assert certificate.bound <= certificate.value
    else:
        assert forecast.price_per_hour <= 40.0
        assert certificate.bound >= certificate.value
    assert forecast.price_per_hour == pytest.approx(sum(forecast.price_parts.values()))
    assert all(0 < stage.busy <= 1 + 1e-6 for stage in forecast.stages)
    assert all(made.memory_bytes[pool] <= made.pool(pool).device.memory_bytes for pool in made.memory_bytes)
    assert 2 <= made.depth <= 16
    assert made.lanes == sum(made.stages[0].workers.values())


def test_dense_layers_go_to_the_gpu_where_that_pays(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    assert [stage.pool for stage in made.stages] == ["cpu", "gpu"]
    assert "read" in made.stages[0].layers
    assert "fc1" in made.stages[1].layers
    assert made.certificate.gap < 1e-3
    dear = replace(rented.pools[1], device=replace(rented.pools[1].device, price_per_hour=500.0))
    only = plan(ctrdnn(), replace(rented, pools=(rented.pools[0], dear)), goal=MinCost(2e6), batch_size=8192)
    assert only.is_fused


def test_a_raised_price_never_lowers_the_cost(rented):
    base = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192).forecast.price_per_million_rows
    gpu = replace(rented.pools[1], device=replace(rented.pools[1].device, price_per_hour=2.0))
    dearer = plan(ctrdnn(), replace(rented, pools=(rented.pools[0], gpu)), goal=MinCost(2e6), batch_size=8192)
    assert dearer.forecast.price_per_million_rows >= base * (1 - 1e-3)


def test_pins_are_kept_and_never_pay(rented):
    goal = MinCost(2e6)
    free = plan(ctrdnn(), rented, goal=goal, batch_size=8192)
    pinned = plan(ctrdnn(), rented, goal=goal, batch_size=8192, pins={"fc1*": "cpu", "loss": "gpu"})
    assert pinned.stage_of("fc1").pool == "cpu"
    assert pinned.stage_of("fc12").pool == "cpu"
    assert pinned.stage_of("loss").pool == "gpu"
    assert pinned.certificate.value >= free.certificate.bound


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"nope": "gpu"}, "no op or layer is called 'nope'"),
        ({"fc0": "tpu"}, "no pool or kind 'tpu'"),
        ({"fc0": "gpu", "relu0": "cpu"}, "are one layer, which runs in one place, and pinned to gpu and cpu: drop all"),
    ],
)
def test_wrong_pins_are_named(pins, message, rented):
    with pytest.raises(PlanError, match=message):
        plan(wide_deep(), rented, batch_size=1024, goal=MinCost(1e5), pins=pins)


def test_place_in_the_graph_is_kept(rented):
    x, y = ops.input("x", shape=(64,)), ops.input("y")
    with ops.place("gpu"):
        h = ops.relu(ops.dense(x, 64, name="a"))
    with ops.place("cpu"):
        out = ops.dense(h, 1, name="b")
    graph = hps.Graph(loss=ops.logloss(out, y, name="loss"))
    made = plan(graph, rented, goal=MinCost(1e5), batch_size=4096)
    assert made.stage_of("a").pool == "gpu"
    assert made.stage_of("b").pool == "cpu"
    assert [stage.pool for stage in made.stages][:3] == ["cpu", "gpu", "cpu"]


def test_batch_size_is_chosen_and_amortises_fixed_costs(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6))
    assert made.batch_size in BATCH_SIZES
    small = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=1024)
    assert made.batch_size > 1024
    assert made.certificate.value < small.certificate.value


def test_shard_hosts_grow_with_the_tables_and_with_throughput(rented):
    def sample(rows):
        return Sample(10**9, 4096, 0.3, {"deep+wide": Growth(1.0, 0.0, 26e9, rows)}, {"deep+wide": 26.0})

    small = plan(wide_deep(), rented, goal=MinCost(1e5), batch_size=4096, sample=sample(1e6))
    large = plan(wide_deep(), rented, goal=MinCost(1e5), batch_size=4096, sample=sample(4e9))
    assert large.shard_hosts > small.shard_hosts
    assert large.shard_hosts * rented.pool("cpu").device.memory_bytes >= large.forecast.tables[0].bytes
    fast = plan(wide_deep(), rented, goal=MinCost(2e7), batch_size=4096, sample=sample(1e6))
    assert fast.shard_hosts > small.shard_hosts


def test_backups_are_counted_in_memory_network_and_work(rented):
    growth = Growth(1.0, 0.0, 26e9, 4e9)
    sample = Sample(10**9, 4096, 0.3, {"deep+wide": growth}, {"deep+wide": 26.0})
    options = {"goal": FixedRate(1e5), "batch_size": 4096, "sample": sample}
    one, two = (plan(wide_deep(), rented, replicas=n, **options) for n in (1, 2))
    assert (one.replicas, two.replicas) == (1, 2)
    assert two.shard_hosts >= 2 * one.shard_hosts - 1, "the tables fill the memory of their hosts, twice"
    tables = two.forecast.tables[0].bytes
    assert two.memory_bytes["cpu"] * two.shard_hosts >= 2 * tables
    links = two.forecast.link_bytes_per_s
    assert links["shard hosts - backups"] == pytest.approx(links["workers - shard hosts"] / 2)
    assert "shard hosts - backups" not in one.forecast.link_bytes_per_s
    assert two.forecast.shard_busy * two.shard_hosts > one.forecast.shard_busy * one.shard_hosts
    assert Plan.from_json(two.to_json()) == two
    assert "2 copies of each" in two.report()
    again = forecast(replace(two, forecast=None), rented, sample=sample)
    assert again.forecast.link_bytes_per_s.keys() == links.keys()


def test_a_backup_needs_a_second_shard_host(rented):
    made = plan(wide_deep(), rented, goal=MinCost(1e4), batch_size=4096, replicas=2)
    assert (made.shard_hosts, made.servers) == (2, 2)
    with pytest.raises(PlanError, match="replicas=3"):
        replace(made, replicas=3)


def of_rows(rows):
    growth = Growth(rows, 0.0, 26.0 * rows, rows)
    return Sample(10**9, 4096, 0.3, {"deep+wide": growth}, {"deep+wide": 26.0})


def test_tables_that_do_not_fit_into_the_memory_of_a_host_go_to_ssd_and_runs_must_be_told():
    made = plan(wide_deep(), one_host(), batch_size=4096, sample=of_rows(1e9))
    assert made.forecast.tables[0].tier == "ssd"
    assert made.memory_bytes["cpu"] < 16e9
    assert any("--storage 'TABLE=ssd'" in text for text in made.assumptions)


def test_rows_take_as_many_shard_hosts_as_hold_them_whatever_the_cap():
    """Rows went to disk, for nothing, where units were few: fewer units, or backups, made cheaper plans."""
    core_ = core(price_per_hour=1.0, memory_bytes=8e9)
    options = {"goal": FixedRate(1e4), "batch_size": 4096, "sample": of_rows(3e8)}
    made = [
        plan(wide_deep(), Hardware((Pool("cpu", core_, cap=cap),)), replicas=n, **options)
        for cap, n in ((30, 1), (60, 1), (60, 2))
    ]
    prices = [each.forecast.price_per_hour for each in made]
    assert made[0].shard_hosts > 6
    assert prices[0] == prices[1] < prices[2]
    few = Hardware((Pool("cpu", core_, cap=6),))
    with pytest.raises(PlanError, match="of pool 'cpu' to hold all rows, which has 6") as caught:
        plan(wide_deep(), few, **options)
    assert "keep rows on disk (--storage '*=ssd')" in str(caught.value)
    on_disk = plan(with_storage(wide_deep(), {"*": "ssd"}), few, **options)
    assert on_disk.forecast.price_per_hour < prices[0]
    assert any("are on disk" in text for text in on_disk.assumptions)


def test_a_pull_pinned_to_the_gpu_keeps_its_table_there(rented):
    made = plan(wide_deep(), rented, goal=MinCost(1e5), batch_size=4096, pins={"pull*": "gpu"})
    assert made.forecast.tables[0].tier == "gpu"


def test_unequal_pools_share_a_stage():
    pools = (
        Pool("cpu", core(price_per_hour=1.0), cap=40),
        Pool("fast", core(name="a", kind="gpu", flops={"float32": 1e13}, price_per_hour=1.0), cap=1, serves=False),
        Pool("slow", core(name="b", kind="gpu", flops={"float32": 4e12}, price_per_hour=1.0), cap=3, serves=False),
    )
    made = plan(ctrdnn(), Hardware(pools), batch_size=4096, pins={"fc*": "gpu", "loss": "gpu"})
    mixed = [stage for stage in made.stages if stage.also]
    assert mixed
    assert set(mixed[0].workers) == {"fast", "slow"}
    share = mixed[0].also[0]
    assert 0 < share.share < 1
    single = tuple(pool for pool in pools if pool.name != "slow")
    alone = plan(ctrdnn(), Hardware(single), batch_size=4096, pins={"fc*": "gpu", "loss": "gpu"})
    assert made.forecast.rows_per_second > 1.2 * alone.forecast.rows_per_second


def test_gpus_sold_in_eights_are_bought_in_eights(rented):
    eights = replace(rented.pools[1], device=replace(rented.pools[1].device, sold_in=8))
    made = plan(ctrdnn(), replace(rented, pools=(rented.pools[0], eights)), goal=MinCost(2e6), batch_size=8192)
    price = made.forecast.price_parts.get("gpu", 0.0) / rented.pools[1].device.price_per_hour
    assert price == pytest.approx(8 * round(price / 8))
    loose = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    assert made.certificate.value >= loose.certificate.bound


LINKED = """
[[pool]]
name = "home"
device = "c6i-8xlarge"

[[pool]]
name = "other"
device = "c6a-8xlarge"
serves = false
price_per_hour = 0.1

[[link]]
source = "{}"
target = "home"
bytes_per_s = {}
"""


def test_what_passes_to_and_from_shard_hosts_takes_part_of_a_link():
    """Worked out by hand: half of what passes between workers and shard hosts goes each way over the link."""
    hardware = Hardware.from_toml(LINKED.format("other", 1e8))
    made = plan(wide_deep(), hardware, goal=MinCost(5e4), batch_size=4096, pins={"*": "other"})
    rate, moved = made.forecast.rows_per_second, made.forecast.link_bytes_per_s["workers - shard hosts"]
    assert made.is_fused
    assert made.forecast.bottleneck in ("link other - home", "link home - other")
    assert moved / 2 == pytest.approx(1e8)
    assert play(made, hardware).rows_per_second > 0.8 * rate
    assert made.certificate.gap < 1e-9


def test_a_link_of_a_pool_with_itself_carries_both_directions():
    hardware = Hardware.from_toml(LINKED.format("home", 1e8))
    made = plan(wide_deep(), hardware, goal=MinCost(1e4), batch_size=4096, pins={"*": "home"})
    assert made.forecast.link_bytes_per_s["workers - shard hosts"] == pytest.approx(1e8)
    with pytest.raises(PlanError, match=r"link home - home is enough for at most [0-9.]+ rows/s"):
        plan(wide_deep(), Hardware.from_toml(LINKED.format("home", 5)), goal=MinCost(1e4), pins={"*": "home"})


def test_a_narrow_link_keeps_work_where_the_data_is(rented):
    narrow = replace(rented, links=(Link("cpu", "gpu", 1e6),))
    made = plan(ctrdnn(), narrow, goal=MinCost(2e6), batch_size=8192)
    assert made.is_fused
    wide = replace(rented, links=(Link("cpu", "gpu", 1e12),))
    assert not plan(ctrdnn(), wide, goal=MinCost(2e6), batch_size=8192).is_fused


def test_a_profile_replaces_derived_rates():
    hardware = one_host()
    rates = Rates.of(hardware.pools[0].device)
    slow = Profile({"cpu": replace(rates, read=Line(0.0, 1e-3), source="measured")})
    made = plan(wide_deep(), hardware, batch_size=4096, profile=slow)
    assert made.forecast.rows_per_second < 2000
    assert made.forecast.stages[0].limit == "compute: read"
    assert "rates of cpu were measured" in made.assumptions


def test_serial_parts_limit_throughput():
    hardware = Hardware((Pool("cpu", core(price_per_hour=1.0)),))
    rates = replace(Rates.of(core()), compute_fraction=0.9)
    target = 200_000.0
    with pytest.raises(PlanError, match="no feasible plan") as caught:
        plan(wide_deep(), hardware, batch_size=4096, goal=MinCost(1e9), profile=Profile({"cpu": rates}))
    assert "alone reaches at most" in str(caught.value)
    assert "rows/s: that is what was found" in str(caught.value)  # over all cuts, but for one pool of shard hosts
    made = plan(wide_deep(), hardware, batch_size=4096, goal=MinCost(target), profile=Profile({"cpu": rates}))
    assert len(made.stages) > 1  # several stages of one pool beat one stage with all the serial work


def test_infeasible_names_the_layer_and_remedies_that_work(rented):
    few = rented.with_caps(cpu=4, gpu=2)
    with pytest.raises(PlanError) as caught:
        plan(ctrdnn(), few, goal=MinCost(5e6), batch_size=8192)
    lines = str(caught.value).splitlines()
    assert lines[0] == "no feasible plan: least price per row with at least 5,000,000 rows/s"
    assert "layer '" in lines[1] or "all together" in lines[1]
    assert lines[2].startswith("  1. ask for at most ")
    most = float(lines[2].split("at most ")[1].split(" rows/s")[0].replace(",", ""))
    plan(ctrdnn(), few, goal=FixedRate(most * 0.999), batch_size=8192)
    raised = [line for line in lines if "raise the cap" in line]
    for line in raised:
        pool, units = line.split("pool '")[1].split("'")[0], int(line.split(" to ")[1].split(":")[0])
        plan(ctrdnn(), few.with_caps(**{pool: units}), goal=FixedRate(5e6), batch_size=8192)


def test_infeasible_budget_says_what_is_needed(rented):
    with pytest.raises(PlanError, match=r"raise the budget: the least that runs at all costs 2\.72 an hour"):
        plan(ctrdnn(), rented, goal=MaxThroughput(1.0), batch_size=8192)


def test_a_plan_says_what_limits_it(rented):
    made = plan(ctrdnn(), rented.with_caps(gpu=1), goal=MaxThroughput(20.0), batch_size=8192)
    spent = f"{made.forecast.price_per_hour:,.2f} of the budget of 20.00 an hour is spent"
    assert spent in made.assumptions
    assert any(text.startswith("all 1 gpu are taken") for text in made.assumptions)


def test_rivals_cost_units_where_nothing_has_a_price():
    pools = (
        Pool("cpu", core(), cap=40),
        Pool("gpu", core(name="g", kind="gpu", flops={"float32": 1e13}), cap=4, serves=False),
    )
    made = plan(ctrdnn(), Hardware(pools), batch_size=4096, goal=MinCost(2e4))
    lost = [rival for rival in made.rivals if rival.rows_per_second is not None]
    assert lost
    assert all(rival.price_per_million_rows is None and "times the units" in rival.why for rival in lost)


def test_unlimited_hardware_needs_a_goal():
    with pytest.raises(PlanError, match="without a cap is unlimited"):
        plan(wide_deep(), Hardware((Pool("cpu", core(price_per_hour=1.0)),)), batch_size=1024)


def test_no_pool_may_serve(rented):
    pools = tuple(replace(pool, serves=False) for pool in rented.pools)
    with pytest.raises(PlanError, match="no cpu pool may carry shard hosts"):
        plan(wide_deep(), replace(rented, pools=pools), goal=MinCost(1e5), batch_size=1024)


@pytest.mark.parametrize("rate", [0, -1, np.inf, np.nan, 1e30])
def test_senseless_rates_are_refused(rate):
    with pytest.raises(PlanError, match="rows_per_second is"):
        MinCost(rate)
    with pytest.raises(PlanError, match="rows_per_second is"):
        FixedRate(rate)


def test_compare_has_a_row_per_solver_and_none_beats_exact(rented):
    request = Request(wide_deep(), rented, MinCost(1e6), (4096,))
    rows = compare(request)
    assert [name for name, _, _ in rows][:6] == ["exact", "milp", "brute", "greedy", "cpu-only", "gpu-only"]
    best = rows[0][1].certificate
    for _, made, reason in rows[1:]:
        assert made is not None or reason
        if made is not None:
            assert made.certificate.value >= best.bound * (1 - 1e-9)
    assert rows[1][1].certificate.value == pytest.approx(best.value, rel=1e-3)


def test_frontier_passes_through_the_plan(rented):
    request = Request(ctrdnn(), rented, MinCost(2e6), (8192,))
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    points = frontier(request, made, points=8)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert min(y for x, y in points if x >= made.forecast.rows_per_second * (1 - 1e-6)) >= (
        made.forecast.price_per_hour * (1 - 1e-9)
    )


def test_explanation_covers_layers_cuts_and_moves(rented):
    request = Request(ctrdnn(), rented, MinCost(2e6), (8192,))
    notes = explain(request)
    assert [note.layer for note in notes.layers][:2] == ["read", "pull embedding"]
    assert set(notes.layers[0].seconds) == {"cpu"}  # reading is not for GPUs
    assert set(notes.layers[-1].seconds) == {"cpu", "gpu"}
    assert sum(cut.taken for cut in notes.cuts) == 1
    assert all(cut.bytes_per_row > 0 for cut in notes.cuts)
    assert all(move.ratio is None or move.ratio >= 1 - 1e-3 for move in notes.moves)
    assert any(move.what == "all on cpu" for move in notes.moves)
    with pytest.raises(PlanError, match="no plan to explain"):
        explain(replace(request, goal=MinCost(1e12)))


def test_solvers_can_be_registered_and_are_named():
    mine = Solver("mine-for-test", solver("exact").solve, "the same under another name")
    assert register_solver(mine) is mine
    made = plan(wide_deep(), one_host(), batch_size=1024, solver="mine-for-test")
    assert made.certificate.solver == "mine-for-test"
    with pytest.raises(PlanError, match="registered already"):
        register_solver(Solver("exact", mine.solve, ""))
    with pytest.raises(UnknownKindError, match="unknown solver 'best'"):
        plan(wide_deep(), one_host(), batch_size=1024, solver="best")


def test_the_forecast_of_a_finished_plan_is_the_planners(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    again = forecast(replace(made, forecast=None), rented)
    assert again.forecast.rows_per_second == pytest.approx(made.forecast.rows_per_second)
    assert again.forecast.price_per_hour == pytest.approx(made.forecast.price_per_hour)
    assert again.forecast.bottleneck == made.forecast.bottleneck


def test_plans_by_hand_are_forecast_and_never_beat_the_planner():
    hardware = one_host()
    best = plan(wide_deep(), hardware, batch_size=4096).forecast.rows_per_second
    split = by_hand(
        wide_deep(), hardware, [("cpu", ["read", "pull*"], 1), ("cpu", ["*"], 1)], batch_size=4096, shard_hosts=2
    )
    check_whole(split)
    assert [stage.name for stage in split.stages] == ["io", "compute"]
    expected = forecast(split, hardware).forecast
    assert expected.rows_per_second < best
    assert expected.bottleneck == "stage compute"
    assert forecast(Plan.fused(wide_deep(), batch_size=4096, workers=2, pool=hardware.pools[0]), hardware).forecast
    with pytest.raises(PlanError, match="no stage takes layer 'wide'"):
        by_hand(wide_deep(), hardware, [("cpu", ["read", "pull*"], 1)], batch_size=64)


def test_a_plan_that_splits_a_layer_is_refused():
    hardware = one_host()
    whole = Plan.fused(wide_deep(), batch_size=64, pool=hardware.pools[0])
    ops = whole.stages[0].ops
    halves = tuple(replace(whole.stages[0], name=name, ops=part) for name, part in (("a", ops[:-4]), ("b", ops[-4:])))
    with pytest.raises(PlanError, match="the plan splits layer"):
        forecast(replace(whole, stages=halves), hardware)


def test_stages_leave_the_server_pool_alone_where_another_is_as_good():
    host = Host("box", 2, 16e9, 4e10)
    pools = tuple(
        Pool(name, core(), cap=2, host="box", serves=name == "server") for name in ("server", "io", "compute")
    )
    made = plan(wide_deep(), Hardware(pools, (host,)), batch_size=4096)
    assert made.shard_pool == "server"
    assert [stage.pool for stage in made.stages] == ["io"]
