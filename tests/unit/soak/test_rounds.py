"""What is hit when, in a soak."""

from __future__ import annotations

from random import Random
from typing import Any

import heterps as hps
from heterps.soak.counted_model import counted_plan
from heterps.soak.rounds import Headway, Pace, at_random, rounds


class Struck:
    """Counts who is hit; nobody is."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def able(self, fault: str) -> bool:
        return True

    def hit(self, fault: str) -> bool:
        self.faults.append(fault)
        return True

    def over(self, fault: str) -> None: ...

    def clear(self) -> None: ...


def test_nobody_is_hit_in_a_first_round_that_warms_up() -> None:
    victims: Any = Struck()
    with hps.launch(counted_plan(1, 1), engine="inline", report_s=0.0) as session:
        choose, pace = at_random(["kill io"], Random(0)), Pace(between_s=(0.0, 0.0), round_s=0.1)
        played = rounds(session, None, victims, choose, Random(0), pace, warm=True)
        first = next(played)
        assert first.exact
        assert not first.hits
        assert not victims.faults
        second = next(played)
        assert second.exact
        assert second.hits
        assert victims.faults


def test_what_is_trained_again_is_no_headway() -> None:
    headway = Headway()
    for now, samples in [(1.0, 100), (2.0, 200), (3.0, 50), (4.0, 150), (5.0, 200)]:
        headway.note(now, samples)
    assert headway.at == 2.0
    headway.note(6.0, 201)
    assert headway.at == 6.0
