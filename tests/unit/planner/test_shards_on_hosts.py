"""Shard hosts on a Host: their part of its cores, and the network of a unit each, of no more units than there are."""

from dataclasses import replace

import pytest

from graphs.wide_deep import wide_deep
from heterps.errors import PlanError
from heterps.hardware import Device, Hardware, Host, Pool
from heterps.planner import FixedRate, MaxThroughput, plan, play
from heterps.planner.costs.expectation import by_hand, forecast

NETWORK = 1e8  # bytes per second that one server sends, and receives


def served_by(servers: int | None) -> Hardware:
    """Servers on a Host with cores and memory for all, and readers that are machines of their own, all of them fast."""
    core = Device("core", "cpu", {"float32": 1e12}, 64e9, 2e11, NETWORK)
    own = replace(core, name="machine", network_bytes_per_s=100 * NETWORK)
    pools = (Pool("server", core, cap=servers, host="box"), Pool("io", own, cap=8, serves=False))
    return Hardware(pools, (Host("box", 64, 5e11, 1e12),))


def moved_by(made) -> float:
    """Bytes a second to all shard hosts and from them: both at once, so that is twice what they send."""
    return made.forecast.link_bytes_per_s["workers - shard hosts"]


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_shard_host_carries_what_its_network_does(hosts):
    hardware = served_by(4)
    stages, where = [("io", ["*"], 4)], {"shard_hosts": hosts, "shard_pool": "server"}
    whole = by_hand(wide_deep(), hardware, stages, batch_size=1024, depth=8, **where)
    made = forecast(whole, hardware)
    assert made.forecast.bottleneck == "shard hosts"
    assert made.forecast.shard_busy == pytest.approx(1.0)
    assert moved_by(made) == pytest.approx(hosts * 2 * NETWORK)
    played = play(replace(whole, mode=replace(whole.mode, depth=8)), hardware, splits=(60,) * 4)
    assert played.rows_per_second == pytest.approx(made.forecast.rows_per_second, rel=0.1)


@pytest.mark.parametrize("servers", [1, 3])
def test_all_of_them_carry_what_the_units_of_their_pool_do(servers):
    """Unlike stages they take no unit, but have no more network than there is; the plan, played, bears that out."""
    made = plan(wide_deep(), served_by(servers), goal=MaxThroughput(), batch_size=1024)
    assert (made.shard_pool, made.shard_hosts) == ("server", servers)
    assert moved_by(made) == pytest.approx(servers * 2 * NETWORK, rel=1e-3)


def test_backups_send_what_came_once_more():
    """Of two hosts each has its rows and gradients, sends the gradients to the other, and receives those of it."""
    made = plan(wide_deep(), served_by(2), goal=MaxThroughput(), batch_size=1024, replicas=2)
    between = made.forecast.link_bytes_per_s["shard hosts - backups"]
    assert moved_by(made) / 2 + between == pytest.approx(2 * NETWORK, rel=1e-3)


def test_of_a_pool_without_a_cap_there_are_as_many_as_it_takes():
    one = plan(wide_deep(), served_by(1), goal=MaxThroughput(), batch_size=1024).forecast.rows_per_second
    made = plan(wide_deep(), served_by(None), goal=FixedRate(4.5 * one), batch_size=1024)
    assert made.shard_hosts == 5


def test_a_unit_of_many_cores_is_busy_with_all_of_them():
    """A machine of 64 cores has four units of 16, and is busy for a quarter of what each of them would be."""
    core, io = served_by(4).pools
    unit = replace(core, device=replace(core.device, cores=16, network_bytes_per_s=1e15))
    busy = [
        forecast(by_hand(wide_deep(), hardware, [("io", ["*"], 4)], batch_size=1024, shard_pool="server"), hardware)
        for hardware in (Hardware((unit, io), served_by(4).hosts), Hardware((replace(unit, host=None), io)))
    ]
    shared, alone = (made.forecast.shard_busy / made.forecast.rows_per_second for made in busy)
    assert shared == pytest.approx(alone / 4)


def test_it_is_named_where_it_is_not_enough():
    with pytest.raises(PlanError, match="network of the shard hosts is enough for at most"):
        plan(wide_deep(), served_by(1), goal=FixedRate(1e6), batch_size=1024)
