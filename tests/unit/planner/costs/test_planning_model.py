"""What plans take of Hosts and links, term by term."""

from dataclasses import replace

import pytest

from graphs.wide_deep import wide_deep
from heterps.hardware import Device, Hardware, Host, Link, Pool
from heterps.planner import MaxThroughput, MinCost, Profile, Rates, Request, plan
from heterps.planner.costs.on_the_way import AHEAD, in_flight_figures
from heterps.planner.costs.planning_model import build_problem

CORE = Device("core", "cpu", {"float32": 1e12}, 64e9, 2e11, 1e9, cores=4, price_per_hour=1.0)
BOX = Host("box", 64, 5e11, 1e12)


def costs_of(hardware, replicas=1, batch_size=1024):
    request = Request(wide_deep(), hardware, MaxThroughput(), (batch_size,), replicas=replicas)
    return request.costs(batch_size)


def test_a_call_over_a_cut_takes_cores_of_the_host():
    hardware = Hardware((Pool("cpu", CORE, cap=8, host="box"), Pool("io", CORE, cap=8)), (BOX,))
    costs = costs_of(hardware)
    problem = build_problem(costs, hardware.pools[0])
    call = costs.rates(hardware.pools[0]).call_s * 4 / 1024
    assert call > 0
    assert problem.turn_usage[0] == pytest.approx([call, 0.0])  # cores, of those on the Host
    assert problem.turn_usage[1].tolist() == [0.0, 0.0]  # its memory bandwidth


def test_gradients_for_backups_pass_over_the_link_of_the_pool_that_carries_them():
    hardware = Hardware((Pool("cpu", CORE, cap=8),), links=(Link("cpu", "cpu", 1e9),))
    one, two = (build_problem(costs, hardware.pools[0]) for costs in (costs_of(hardware), costs_of(hardware, 2)))
    more = costs_of(hardware, 2).replica_bytes / 1024
    assert more > 0
    assert two.fixed_usage[0] - one.fixed_usage[0] == pytest.approx(more)


def test_no_plan_costs_more_an_hour_than_whoever_asks_allows():
    """Plans of twice the price of what was asked for are compared, but for those above a limit that was given."""
    hardware = Hardware((Pool("cpu", replace(CORE, price_per_hour=3.0), cap=40),))
    options = {"batch_size": 1024}
    free = plan(wide_deep(), hardware, goal=MinCost(1e4), **options)
    least = plan(wide_deep(), hardware, goal=MinCost(1e4, price_per_hour=6.1), **options)
    assert least.forecast.price_per_hour <= 6.1 < free.forecast.price_per_hour
    assert least.certificate.gap < 1e-9


def test_shard_hosts_read_write_and_keep_every_byte_in_the_memory_of_their_host():
    hardware = Hardware((Pool("cpu", CORE, cap=8, host="box"),), (BOX,))
    for replicas in (1, 2):
        costs = costs_of(hardware, replicas)
        problem = build_problem(costs, hardware.pools[0]).calling(1)
        moved = 3 * (costs.shard_bytes + costs.replica_bytes) / 1024
        assert problem.fixed_usage[1] == pytest.approx(moved), replicas


def test_a_backup_applies_gradients_once_more_and_is_called_for_them():
    hardware = Hardware((Pool("cpu", CORE, cap=8),))
    (pool,), one, two = hardware.pools, costs_of(hardware), costs_of(hardware, 2)
    rates = one.rates(pool)
    rows = [op.type.shape[0] * 1024 * one.layers.unique_fraction for op in one.pulls]
    applied = sum(map(rates.push, rows)) + rates.dense(one.dense_size)
    assert two.shard_s(pool) - one.shard_s(pool) == pytest.approx(
        applied + 2 * two.replica_bytes * rates.wire_s_per_byte
    )
    asked = 1 + one.fetches  # for rows, and for the parameters of a later stage
    assert one.shard_call_s(pool) == pytest.approx((asked + 1) * rates.call_s)
    assert two.shard_call_s(pool) == pytest.approx((asked + 2) * rates.call_s)


def test_what_does_not_scale_is_what_each_core_of_a_host_loses_to_the_others():
    hardware = Hardware((Pool("cpu", CORE, cap=8, host="box"), Pool("io", CORE, cap=8)), (BOX,))
    rates = replace(Rates.of(CORE), compute_fraction=0.9)
    profile = Profile({"cpu": rates, "io": rates})
    costs = replace(costs_of(hardware), profile=profile)
    assert [costs.crowding(pool) for pool in hardware.pools] == [pytest.approx(0.9 + 64 * 0.1), 1.0]


@pytest.mark.parametrize("replicas", [1, 2])
def test_parameters_are_laid_out_by_one_host_while_those_of_another_are_on_their_way(replicas):
    hardware = Hardware((Pool("cpu", CORE, cap=8),))
    (pool,), costs = hardware.pools, costs_of(hardware, replicas)
    way = in_flight_figures(costs, pool, [True])["layer_way"][:, 0]
    v, layer = next((v, each) for v, each in enumerate(costs.layers.layers) if v and each.cost.parameter_bytes)
    moved = costs.byte_s(pool) + 2 * costs.rates(pool).wire_s_per_byte / replicas
    seconds = costs.cost(layer, pool).kernel_s + layer.cost.parameter_bytes * moved
    assert way[v] == pytest.approx(AHEAD * seconds / 1024)


def test_what_is_copied_to_a_device_counts_where_no_first_stage_can_be():
    """A stage that reads copies nothing while a batch is on its way."""
    hardware = Hardware.from_toml(
        '[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\n[[pool]]\nname = "gpu"\ndevice = "l4"\n'
    )
    costs, bus = costs_of(hardware), hardware.pool("gpu").device.bus_bytes_per_s
    apart, reads = (in_flight_figures(costs, hardware.pools[0], [True, may])["own_way"][0] for may in (False, True))
    assert apart[1] - reads[1] == pytest.approx(AHEAD / bus)
    assert apart[0] == reads[0]
