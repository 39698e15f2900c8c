"""Bugs in embedding caches are found, among worlds that have one."""

from functools import cache

import pytest

from heterps.protocol import Cached
from heterps.simulator import draw, simulate
from heterps.simulator.scenario import Scenario
from tests.unit.protocol.planted_cache import PLANTED

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same

RARE: dict[str, int] = {}  # which take more worlds to find: they are looked for in make full


@cache
def worlds(seeds: int = 2000) -> list[Scenario]:
    return [world for world in map(draw, range(seeds)) if isinstance(world.spec.mode, Cached)]


def test_caches_are_played_with_every_unit_and_with_stages() -> None:
    """That they keep the promise is seen in the 20,000 seeds that are played anyway."""
    assert {world.spec.mode.unit for world in worlds()} == {1, 2, 3}
    assert any(world.spec.compute for world in worlds())
    assert len(worlds()) > 150


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in RARE else n for n in PLANTED])
def test_planted_bug_of_a_cache_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    assert any(simulate(world).problem for world in worlds(RARE.get(name, 2000)))
