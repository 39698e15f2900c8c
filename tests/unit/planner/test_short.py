"""A plan in a few lines and one picture."""

from dataclasses import replace

from heterps.planner.show.short import draw_plan, plan_lines
from heterps.testing.engine_contract import plan


def test_a_plan_is_told_and_drawn() -> None:
    assert plan_lines(plan(shard_hosts=2)) == ["batches of 64, async, 2 shard hosts", "all: 1 x cpu, 13 ops"]
    assert draw_plan(plan()).startswith("<svg")


def test_a_plan_that_names_no_layers_has_no_picture() -> None:
    made = plan()
    assert draw_plan(replace(made, stages=(replace(made.stages[0], layers=()),))) == ""
