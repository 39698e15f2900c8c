"""Plans played in their stride: in miniature with the calls of all their hosts, and not where that takes days."""

import pytest

from graphs.wide_deep import wide_deep
from heterps.planner import MaxThroughput, Request, plan
from heterps.planner.costs.playing import play_plan
from heterps.planner.costs.steady import steady_splits
from heterps.planner.solve import checks
from heterps.simulator.timed.play import TooLongError


def test_batches_that_take_days_are_not_played(rented, monkeypatch):
    goal = MaxThroughput(40.0)
    made, costs = (
        plan(wide_deep(), rented, goal=goal, batch_size=4096),
        Request(wide_deep(), rented, goal, (4096,)).costs(4096),
    )
    splits = steady_splits(made)
    few, many = (play_plan(made, costs, splits=splits, called=called).rows_per_second for called in (10, 10**4))
    assert many < few / 10
    with pytest.raises(TooLongError, match="days and more"):
        play_plan(made, costs, splits=splits, called=10**10)

    def endless(*_):
        raise TooLongError("days")

    monkeypatch.setattr(checks, "steady_play", endless)
    assert checks.played_beside(made, costs) is None
