"""Integer programs at one throughput: what is proved is what the program proves."""

from dataclasses import replace

import pytest

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.milp import milp_placement
from heterps.planner.solve.placement import Shards


def test_a_host_takes_its_part_of_a_pack():
    """Three units and a host are a pack of four, for 4; three units elsewhere, for 3, and a pack for the host are 7."""
    packs = {"price": [1.0, 1.0], "sold_in": [4, 1], "cap": [40.0, 40.0]}
    problem = make_problem([[1.0, 1.0]], **packs, shards=Shards(0.0, 1, 0.0, type=0))
    assert milp_placement(problem, 3.0).price == pytest.approx(4.0)


def test_what_is_open_in_the_program_is_open_in_the_placement(monkeypatch):
    solve = IntegerProgram.solve

    def stopped_early(program, seconds):
        found = solve(program, seconds)
        return replace(found, bound=found.bound - 3.0)

    monkeypatch.setattr(IntegerProgram, "solve", stopped_early)
    found = milp_placement(make_problem([[1.0]], cap=20.0, shards=Shards(0.1, 1, 5.0)), 10.0)
    assert found.price == pytest.approx(15.0)
    assert found.bound == pytest.approx(12.0)
