"""Bugs in ranges beside batches are found, among worlds that have both."""

from functools import cache
from typing import Any

import pytest

from heterps.protocol import Mixed, MixedSync, Mode
from heterps.simulator import draw, simulate
from heterps.simulator.scenario import Scenario
from tests.unit.protocol.planted_mixed import IN_STEPS, PLANTED

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same


# Seeds; looked for in make full.
RARE = dict.fromkeys(["an_unfinished_range_stays_with_the_worker", "a_lane_says_nothing_of_its_last_batch"], 20_000)


@cache
def worlds(seeds: int = 4000) -> dict[type[Mode], list[Scenario]]:
    """Return those that have ranges, without steps and with them."""
    found: dict[type[Mode], list[Scenario]] = {Mixed: [], MixedSync: []}
    for world in map(draw, range(seeds)):
        found.get(type(world.spec.mode), []).append(world)
    return found


@pytest.mark.parametrize("mode", [Mixed, MixedSync])
def test_ranges_of_several_lengths_are_played(mode: type[Mode]) -> None:
    """That they keep the promise is seen in the seeds that are played anyway."""
    assert {world.spec.mode.span for world in worlds()[mode]} == {2, 3}
    assert len(worlds()[mode]) > 80


def test_some_worlds_have_ranges_and_an_all_reduce_group() -> None:
    assert 0.3 < sum(world.spec.group for world in worlds()[MixedSync]) / len(worlds()[MixedSync]) < 0.7


def found_in(mode: type[Mode], name: str) -> bool:
    return any(simulate(world).problem for world in worlds(RARE.get(name, 4000))[mode])


def by_name(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.full) if name in RARE else name for name in names]


@pytest.mark.parametrize("name", by_name(*PLANTED))
def test_planted_bug_of_ranges_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    assert found_in(Mixed, name)


@pytest.mark.parametrize("name", by_name(*PLANTED, *IN_STEPS))
def test_planted_bug_of_ranges_in_steps_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (PLANTED | IN_STEPS)[name](monkeypatch)
    assert found_in(MixedSync, name)
