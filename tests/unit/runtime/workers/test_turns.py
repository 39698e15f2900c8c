"""Whose turn it was, as a host sees it."""

from heterps.runtime.workers.turns import LaneTime, Turns


def test_a_lane_is_charged_with_its_own_time_and_not_with_waiting_for_others() -> None:
    now = 0.0
    turns = Turns(2, lambda: now)
    turns.begins(0)
    turns.begins(1)
    now = 1.0
    turns.ends(0, 1)  # it has pushed and asks for the next rows, which it gets when the other one has, too
    now = 5.0
    assert turns.all() == [LaneTime(1, 1.0), LaneTime(0, 5.0)]
    turns.ends(0)  # asked again: it still waits
    turns.ends(1, 1)
    turns.begins(0)
    now = 6.0
    assert turns.all() == [LaneTime(1, 2.0), LaneTime(1, 5.0)]
