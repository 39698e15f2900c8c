"""Each bug planted in the all-reduce group must be found, in worlds that have one."""

from collections.abc import Iterator
from itertools import islice

import pytest

from heterps.protocol import Sync
from heterps.simulator import draw, simulate
from heterps.simulator.scenario import Scenario
from tests.unit.protocol.host import test_state
from tests.unit.protocol.planted_group import PLANTED, PLANTED_IN_STAGES

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same

# Which take many seeds to find: for some 15 s each.
RARE = ("members_behind_stay_behind", "pushed_to_the_group_with_the_hosts")
# Which none of 12,000 worlds finds.
BY_HAND = {"old_parameters_are_taken": test_state.test_parameters_of_a_group_that_come_late_are_refused}
SELDOM = {"one_made_anew_computes": 42_510_487}  # seeds of worlds in which what is seldom happens


def worlds(*, compute: bool) -> Iterator[Scenario]:
    """Worlds with a group of workers that read, or of stage workers."""
    drawn = (draw(seed) for seed in range(600_000))
    return (
        world for world in drawn if world.spec.group and world.spec.compute == compute and world.spec.mode == Sync()
    )


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n in RARE else n for n in PLANTED if n not in BY_HAND]
)
def test_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    tried = islice(worlds(compute=False), 5000 if name in RARE else 300)
    assert any(simulate(world).problem for world in tried)


@pytest.mark.parametrize("name", BY_HAND)
def test_planted_bug_is_found_by_hand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    with pytest.raises(AssertionError):
        BY_HAND[name]()


@pytest.mark.parametrize("name", PLANTED_IN_STAGES)
def test_planted_bug_is_found_where_stage_workers_are_members(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED_IN_STAGES[name](monkeypatch)
    tried = islice(worlds(compute=True), 50) if name not in SELDOM else [draw(SELDOM[name])]
    assert any(simulate(world).problem for world in tried)


_ANYWHERE = {"message lost", "message late", "cut", "crash server"}


@pytest.mark.parametrize(
    ("compute", "kinds"),
    [
        (False, {"crash io", "freeze io", "join io"}),
        (True, {"crash compute", "freeze compute", "join compute", "lose stage", "crash io"}),
    ],
    ids=["readers", "stages"],
)
def test_groups_are_disturbed_in_every_way(compute: bool, kinds: set[str]) -> None:
    fired: set[str] = set()
    for scenario in islice(worlds(compute=compute), 40):
        outcome = simulate(scenario)
        assert not outcome.problem, f"{scenario}\n{outcome.problem}"
        fired |= set(outcome.fired)
    assert kinds | _ANYWHERE <= fired
