"""Each bug planted in the all-reduce group must be found, in worlds that have one."""

from itertools import islice

import pytest

from heterps.protocol import Sync
from heterps.simulator import draw, simulate
from tests.unit.protocol.planted_group import PLANTED

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same

# Which take many seeds to find: for some 15 s each.
RARE = ("members_behind_stay_behind", "pushed_to_the_group_with_the_hosts", "old_parameters_are_taken")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in RARE else n for n in PLANTED])
def test_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    worlds = (world for world in map(draw, range(600_000)) if world.spec.group and world.spec.mode == Sync())
    assert any(simulate(world).problem for world in islice(worlds, 5000 if name in RARE else 300))


def test_groups_are_disturbed_in_every_way() -> None:
    fired: set[str] = set()
    for scenario in islice((s for s in map(draw, range(20_000)) if s.spec.group), 60):
        outcome = simulate(scenario)
        assert not outcome.problem, f"{scenario}\n{outcome.problem}"
        fired |= set(outcome.fired)
    assert {"crash io", "freeze io", "join io", "message lost", "message late", "cut", "crash server"} <= fired
