"""Workers of a plan on machines that are rented whole."""

from dataclasses import replace

import pytest

from graphs.wide_deep import wide_deep
from heterps.errors import ClusterError
from heterps.hardware import Hardware
from heterps.planner.costs.expectation import by_hand
from heterps.planner.purchases import Purchase
from heterps.runtime.cluster.many_hosts import Machine, spread
from heterps.runtime.cluster.plan_commands import plan_commands
from heterps.runtime.cluster.plan_hosts import plan_machines

HARDWARE = Hardware.from_toml(
    '[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\n'
    '[[product]]\nname = "g6-xlarge"\n[[product]]\nname = "p3-2xlarge"\n'
)
MACHINE = Purchase("g6-xlarge", 2, {"l4": 1, "g6_xlarge": 1}, 0.8)
OTHER = Purchase("p3-2xlarge", 1, {"v100": 1, "p3_2xlarge": 1}, 3.06)
READ, REST = ["read", "pull*"], ["*"]
ROLES = {"g6_xlarge": ("server", "io"), "l4": ("l4",)}


def made(first, *bought, shard_pool="g6_xlarge"):
    stages = [(first, READ, 1), ("l4", REST, 2)]
    plan = by_hand(wide_deep(), HARDWARE, stages, batch_size=64, shard_pool=shard_pool)
    return replace(plan, purchases=bought)


def test_a_machine_has_room_for_what_is_in_it():
    plan = made("g6_xlarge", MACHINE)
    machines = plan_machines(plan, "10.0.0.5=g6-xlarge, 10.0.0.6", ROLES)
    placed = spread(machines, {"server": 1, "io": 1, "l4": 2})
    assert sorted((machine.address, pool) for machine, pool, _ in placed) == [
        ("10.0.0.5", "l4"),
        ("10.0.0.5", "server"),
        ("10.0.0.6", "io"),
        ("10.0.0.6", "l4"),
    ]


def test_too_few_machines_are_refused_with_the_number():
    with pytest.raises(ClusterError, match="1 workers of pool 'io' wanted, hosts that allow it have room for 0"):
        plan_commands(made("g6_xlarge", MACHINE), ["plan.json"], hosts="127.0.0.1")


def test_the_lines_of_machines_have_their_own_cores():
    hosts = "127.0.0.2,127.0.0.3=g6-xlarge,127.0.0.4=g6-xlarge"
    text = plan_commands(made("cpu", MACHINE, shard_pool="cpu"), ["plan.json"], hosts=hosts)
    for address, resources in (("2", {"HPS_SERVER", "HPS_IO"}), ("3", {"HPS_L4"}), ("4", {"HPS_L4"})):
        lines = text.split(f"# on 127.0.0.{address}\n")[1].split("\n\n")[0]
        assert {
            line.split("--resources ")[1].split("=")[0] for line in lines.splitlines() if "--resources" in line
        } == (resources)
    assert "--nthreads 16" in text


def test_hosts_of_two_kinds_are_named():
    with pytest.raises(ClusterError, match=r"'127.0.0.1': say which machine it is, 127.0.0.1=g6-xlarge or p3-2xlarge"):
        plan_machines(made("g6_xlarge", MACHINE, OTHER), "127.0.0.1", ROLES)
    with pytest.raises(ClusterError, match="no machine and no pool 'g7-xlarge'; there are g6-xlarge"):
        plan_machines(made("g6_xlarge", MACHINE), "127.0.0.1=g7-xlarge", ROLES)
    with pytest.raises(ClusterError, match="no host in ' ,'"):
        plan_machines(made("g6_xlarge", MACHINE), " ,", ROLES)


def test_parts_of_a_machine_that_declare_the_same_are_all_used():
    machine = Machine("10.0.0.5", ("server", "io"), ((frozenset(("server", "io")), 2), (frozenset(("io",)), 1)))
    assert len(spread([machine], {"server": 1, "io": 2})) == 3
    assert len(spread([machine], {"server": 0, "io": 3})) == 3
    for workers in ({"server": 3}, {"server": 1, "io": 3}):
        with pytest.raises(ClusterError, match="have room for"):
            spread([machine], workers)


def test_a_machine_of_one_pool_is_called_by_its_name_too():
    shelf = Purchase("shelf", 2, {"g6_xlarge": 2})
    assert shelf.is_machine
    (machine,) = plan_machines(made("g6_xlarge", shelf), "10.0.0.5=shelf", ROLES)
    assert machine.room == ((frozenset(("server", "io")), 2),)
    with pytest.raises(
        ClusterError, match="no machine and no pool 'rack'; there are shelf, compute, io, server, gpu, l4"
    ):
        plan_machines(made("g6_xlarge", shelf), "10.0.0.5=rack", ROLES)
