"""Remedies: what is said to help does, and what is said to be all there is cannot be beaten."""

import re
from dataclasses import replace

import pytest

from graphs.wide_deep import wide_deep
from heterps.errors import PlanError
from heterps.hardware import Device, Hardware, Host, Link, Pool
from heterps.planner import FixedRate, MaxThroughput, MinCost, Request, plan
from heterps.planner.planner import solve
from heterps.planner.solve.choose import Choosing
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.remedies import _NOTHING_ALONE, _rounded_down, _shared

CORE = Device("core", "cpu", {"float32": 1e12}, 64e9, 2e11, 1e8, price_per_hour=1.0)
FAST = replace(CORE, name="fast", network_bytes_per_s=1e10, price_per_hour=3.0)
BOX = Host("box", 64, 5e11, 1e12)
SERVED = Hardware((Pool("server", CORE, cap=1, host="box"), Pool("io", FAST, cap=8, serves=False)), (BOX,))
SIZE = {"batch_size": 1024}


def refused(hardware: Hardware, goal, **more) -> list[str]:
    with pytest.raises(PlanError, match="no feasible plan") as caught:
        plan(wide_deep(), hardware, goal=goal, **SIZE, **more)
    return str(caught.value).splitlines()[1:]


def figure(lines: list[str], before: str) -> float:
    """The first number behind some words."""
    (line,) = (line for line in lines if before in line)
    return float(re.match(r"[\d.,e]*\d", line.split(before)[1])[0].replace(",", ""))


def reaches(hardware: Hardware, rows_per_second: float, **more) -> bool:
    try:
        plan(wide_deep(), hardware, goal=FixedRate(rows_per_second), **SIZE, **more)
    except PlanError:
        return False
    return True


def with_network(hardware: Hardware, name: str, network: float) -> Hardware:
    pools = (
        replace(pool, device=replace(pool.device, network_bytes_per_s=network)) if pool.name == name else pool
        for pool in hardware.pools
    )
    return replace(hardware, pools=tuple(pools))


def test_all_there_is_is_said_of_every_pool_that_may_carry_shard_hosts():
    """The first of them has little network: not the 7,600 rows/s are all that can be had which it gives."""
    slow = replace(CORE, cores=8, network_bytes_per_s=1e7)
    fast = replace(slow, name="fast", network_bytes_per_s=1e9, price_per_hour=3.0)
    hardware = Hardware((Pool("slow", slow, cap=2), Pool("fast", fast, cap=4)))
    made = plan(wide_deep(), hardware, goal=MaxThroughput(), **SIZE)
    lines = refused(hardware, FixedRate(3e6))
    assert figure(lines, "ask for at most ") == pytest.approx(made.forecast.rows_per_second, rel=1e-3)
    assert "shard hosts alone take" in lines[0]
    more = int(figure(lines, "raise the cap of pool 'fast' from 4 to "))
    assert reaches(hardware.with_caps(fast=more), 3e6)


def test_more_shard_hosts_or_more_network_for_them_or_other_machines():
    lines = refused(SERVED, FixedRate(3e5))
    assert "network of the shard hosts is enough" in lines[0]
    units = int(figure(lines, "raise the cap of pool 'server' from 1 to "))
    network = figure(lines, "pool 'server' (network_bytes_per_s) from 1e8 to ")
    assert "let pool 'io' carry shard hosts (serves = true)" in "\n".join(lines)
    assert reaches(SERVED.with_caps(server=units), 3e5)
    assert not reaches(SERVED.with_caps(server=units - 1), 3e5)
    assert reaches(with_network(SERVED, "server", network), 3e5)
    assert not reaches(with_network(SERVED, "server", network / 1.4), 3e5)
    assert reaches(replace(SERVED, pools=tuple(replace(pool, serves=True) for pool in SERVED.pools)), 3e5)


def test_what_does_not_help_is_not_said():
    """Of the machines that read there are too few as well: neither more network nor another pool is enough."""
    lines = refused(SERVED, FixedRate(1e8))
    assert not any("network_bytes_per_s" in line or "serves" in line for line in lines[1:])


def test_a_link_and_the_cores_of_a_host_can_be_raised():
    linked = replace(SERVED.with_caps(server=None), links=(Link("io", "server", 1e8),))
    lines = refused(linked, FixedRate(3e5), pins={"*": "io"})
    wide = figure(lines, "raise link io - server (bytes_per_s) from 1e8 to ")
    assert reaches(replace(linked, links=(Link("io", "server", wide),)), 3e5, pins={"*": "io"})
    small = Hardware((Pool("cpu", replace(FAST, price_per_hour=1.0), cap=64, host="box"),), (replace(BOX, cores=4),))
    most = plan(wide_deep(), small, goal=MaxThroughput(), **SIZE).forecast.rows_per_second
    cores = int(figure(refused(small, FixedRate(3 * most)), "raise the cores of host 'box' from 4 to "))
    assert reaches(replace(small, hosts=(replace(BOX, cores=cores),)), 3 * most)


@pytest.mark.parametrize(
    ("budget", "said"),
    [(float("inf"), "from 1 to 2: 2.00"), (5.0, "from 1 to 2: 2.00"), (1.0, "from 1 to 2 and the budget: 2.00")],
)
def test_one_machine_is_too_few_for_a_worker_and_a_shard_host(budget, said):
    lines = refused(Hardware((Pool("cpu", CORE, cap=1),)), MaxThroughput(budget))
    assert f"raise the cap of pool 'cpu' {said} an hour" in lines[1]


@pytest.mark.parametrize("price", [1.0, 1.536, 1.36, 0.805, 0.0031])
def test_a_budget_that_is_said_to_be_enough_is(price):
    """It was rounded to cents: 3.07 where two machines cost 3.072."""
    hardware = Hardware((Pool("cpu", replace(CORE, price_per_hour=price), cap=8),))
    enough = figure(refused(hardware, MaxThroughput(price)), "the least that runs at all costs ")
    assert plan(wide_deep(), hardware, goal=MaxThroughput(enough), **SIZE).forecast.price_per_hour <= enough


@pytest.mark.parametrize("cap", [2, 3, 4, 7, 16])
def test_as_many_rows_as_are_said_can_be_had(cap):
    """They were rounded to the nearest: of every second one a part of a row a second was missing."""
    hardware = Hardware((Pool("cpu", CORE, cap=cap),))
    assert reaches(hardware, figure(refused(hardware, FixedRate(1e9)), "ask for at most "))


@pytest.mark.parametrize(("most", "said"), [(1234.9, 1234.0), (12.349, 12.3), (0.0456789, 0.0456), (0.0, 0.0)])
def test_fewer_rows_are_said_in_fewer_digits(most, said):
    assert _rounded_down(most) == pytest.approx(said)


def test_where_nothing_helps_alone_that_is_said():
    """One unit is too few for anything, and so are calls of small batches for so many rows, however many units."""
    lines = refused(Hardware((Pool("cpu", CORE, cap=1),)), FixedRate(1e9))
    assert lines[1:] == [f"  1. {_NOTHING_ALONE}"]


def test_where_calls_to_shard_hosts_are_the_end_a_part_of_it_is_asked_for():
    """No pool without a cap is used up: a thousand million units of it were said to be all there are."""
    hardware = Hardware((Pool("cpu", CORE),))
    lines = refused(hardware, FixedRate(1e17))
    assert "calls each of them" in lines[0]
    assert reaches(hardware, figure(lines, "ask for at most "))


def test_batches_that_fit_nowhere_have_smaller_ones_for_a_remedy():
    with pytest.raises(PlanError, match=r"1\. use batches of 4,096 rows") as caught:
        plan(wide_deep(), Hardware((Pool("cpu", CORE, cap=8),)), goal=MaxThroughput(), batch_size=10**9)
    assert "needs" in str(caught.value)


def test_backups_are_shard_hosts_that_are_needed():
    lines = refused(Hardware((Pool("cpu", CORE, cap=2),)), MaxThroughput(), replicas=2)
    assert lines[0].startswith("one worker for every stage and 2 shard hosts are more than the pools have")


def test_two_pools_that_share_a_stage_count_together():
    hardware = Hardware((Pool("some", CORE, cap=40), Pool("other", FAST, cap=40)))
    (line, *_) = refused(hardware, FixedRate(1e10))
    assert "on all of pool 'some' and pool 'other'" in line or "on all of pool 'other' and pool 'some'" in line


def test_a_pool_of_which_there_is_none_is_nothing_to_warn_of():
    none = Pool("none", FAST, cap=0, serves=False)
    lines = refused(Hardware((Pool("cpu", CORE, cap=2), none)), FixedRate(1e10))
    assert "on all of pool 'cpu'" in lines[0]


def test_a_job_is_told_how_much_longer_it_takes():
    hardware = Hardware((Pool("cpu", CORE, cap=2),))
    lines = refused(hardware, MinCost.of_job(1e12, 3600.0))
    times = figure(lines, "rows/s, or give it ")
    plan(wide_deep(), hardware, goal=MinCost.of_job(1e12, 3600.0 * times), **SIZE)


def test_where_only_money_is_short_nothing_else_is_said_to_help_that_takes_it_too():
    """Ten lines said to raise networks "and the budget", each for what the budget alone does."""
    hardware = Hardware((Pool("cpu", CORE, cap=8), Pool("fast", FAST, cap=8)))
    assert refused(hardware, MaxThroughput(1.5))[1:] == [
        "  1. raise the budget: the least that runs at all costs 2.00 an hour"
    ]


def test_what_layers_take_of_a_host_adds_up():
    usage = [[[0.5, 2.0], [0.25, 0.25]]]  # by Layer and type
    problem = make_problem([[1.0, 1.0]] * 2, usage=usage, fixed_usage=[0.25], capacity=(2.0,))
    assert _shared(problem).tolist() == [2.0]


def of_both(goal, **more) -> list[str]:
    """What is said of two batch sizes, of which the larger one comes nearer to what is asked for."""
    with pytest.raises(PlanError, match="no feasible plan") as caught:
        solve(Request(wide_deep(), Hardware((Pool("cpu", FAST, cap=4),)), goal, (256, 8192), **more))
    return str(caught.value).splitlines()[1:]


def test_what_stands_in_the_way_is_said_of_the_batch_size_that_comes_nearest():
    assert of_both(FixedRate(1e9))[0].endswith("with batches of 8,192")


def test_all_there_is_is_proved_only_where_all_batch_sizes_were_looked_at(monkeypatch):
    assert "all there is gives no more" in of_both(FixedRate(1e9))[1]
    monkeypatch.setattr(Choosing, "_is_late", property(lambda self: bool(self.drafts)))  # once there is a plan
    assert "that is what was found" in of_both(FixedRate(1e9))[1]


def test_all_there_is_is_proved_only_where_nothing_is_open(monkeypatch):
    choice = Choosing.choice.fget
    monkeypatch.setattr(Choosing, "choice", property(lambda self: (found := choice(self)) and wider(found)))
    assert "that is what was found" in of_both(FixedRate(1e9))[1]


def wider(choice):
    return replace(choice, bound=choice.bound * 1.01)
