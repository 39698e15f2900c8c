"""Bugs in ranges beside batches are found, among worlds that have both."""

from functools import cache

import pytest

from heterps.protocol import Mixed
from heterps.simulator import draw, simulate
from heterps.simulator.scenario import Scenario
from tests.unit.protocol.planted_mixed import PLANTED

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same


RARE = {"an_unfinished_range_stays_with_the_worker": 4000}  # seeds; looked for in make full


@cache
def worlds(seeds: int = 2000) -> list[Scenario]:
    return [world for world in map(draw, range(seeds)) if isinstance(world.spec.mode, Mixed)]


def test_ranges_of_several_lengths_are_played() -> None:
    """That they keep the promise is seen in the seeds that are played anyway."""
    assert {world.spec.mode.span for world in worlds()} == {2, 3}
    assert len(worlds()) > 80


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in RARE else n for n in PLANTED])
def test_planted_bug_of_ranges_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    assert any(simulate(world).problem for world in worlds(RARE.get(name, 2000)))
