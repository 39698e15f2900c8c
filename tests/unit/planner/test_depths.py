"""Depths by pool: in a plan, its file, its report, what differs from another, and when it is played."""

import json
from dataclasses import replace

import pytest

import heterps as hps
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.models import ctrdnn
from heterps.planner import MaxThroughput, play
from heterps.planner.planner import Request, solve
from heterps.planner.show.diff import diff
from heterps.protocol.words.modes import Async, Geo, Mixed, Sync

RENTED = """
[[pool]]
name = "cpu"
device = "c6a-8xlarge"
cap = 1

[[product]]
name = "p3-2xlarge"
"""


@pytest.fixture(scope="module")
def made():
    return solve(Request(ctrdnn(), Hardware.from_toml(RENTED), MaxThroughput(30), (32768,)))


def test_each_pool_that_reads_has_a_depth(made):
    assert made.depths.keys() == made.stages[0].workers.keys()
    assert made.depth == made.mode.depth == max(made.depths.values()) > min(made.depths.values())
    text = ", ".join(f"{made.depth_on(pool)} on {pool}" for pool in made.stages[0].workers)
    assert f"depth {text}, async mode" in made.report()


def test_plans_with_depths_are_read_as_they_were_written_and_those_without_are_as_before(made, tmp_path):
    made.save(tmp_path / "plan.json")
    assert hps.Plan.load(tmp_path / "plan.json") == made
    even = replace(made, depths={})
    assert "depths" not in even.to_json()
    assert hps.Plan.from_json(json.loads(json.dumps(even.to_json()))).depth_on("cpu") == made.depth


def test_a_depth_of_a_pool_that_does_not_read_is_refused(made):
    with pytest.raises(PlanError, match="pool 'v100' does not read"):
        replace(made, depths={"v100": made.depth})
    with pytest.raises(PlanError, match="the most of depths is 3"):
        replace(made, depths=dict.fromkeys(made.depths, 3))


def test_what_differs_names_the_depths(made):
    rows = {name: (a, b) for name, a, b in diff(made, replace(made, depths={}))}
    assert rows == {"depth": (", ".join(f"{d} on {pool}" for pool, d in made.depths.items()), str(made.depth))}


def test_depths_are_those_of_modes_that_have_the_depth_of_the_plan(made):
    assert made.depths_in(Async(made.depth, merge=4)) == made.depths_in(Mixed(10, made.depth)) == made.depths
    assert made.depths_in(Async(made.depth + 1)) == made.depths_in(Sync()) == made.depths_in(Geo(10)) == {}
    assert [mode.at_depth(7) for mode in (Async(2, 3), Mixed(4), Sync())] == [Async(7, 3), Mixed(4, 7), Sync()]


def test_less_memory_is_needed_where_less_is_in_flight(made):
    reading = dict(made.depths)
    shallow = min(reading, key=reading.__getitem__)
    deep = max(reading, key=reading.__getitem__)
    assert made.memory_bytes[shallow] < made.memory_bytes[deep]


def test_played_workers_are_as_deep_as_their_pool(made):
    """With one batch in each slow lane the fast one is as fast as it was; with one in its own it is not."""
    rented = Hardware.from_toml(RENTED)
    alike = replace(made, shard_hosts=made.shard_hosts)
    asked = {"splits": (2 * made.depth,) * (4 * made.lanes)}
    deep = min(made.depths, key=made.depths.__getitem__)
    one = replace(alike, depths={**made.depths, deep: 1})
    fast = next(pool for pool in made.depths if pool != deep)
    slow = replace(alike, depth=made.depth, depths={fast: 1, deep: made.depth})
    rates = [play(each, rented, **asked).rows_per_second for each in (made, one, slow)]
    assert rates[0] > 0.6 * made.forecast.rows_per_second
    assert rates[2] < 0.9 * rates[0]
    assert rates[1] < rates[0]
