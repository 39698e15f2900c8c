"""The hunter is itself tested: each planted bug must be found, and cut down to a history one can read."""

import pytest

from heterps.simulator import draw, hunt, simulate
from tests.unit.protocol.planted import PLANTED

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same


RARE = ("commit_too_early", "cut_ignores_lanes_that_ended")  # which take many seeds to find


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in RARE else n for n in PLANTED])
def test_planted_bug_is_found_within_2000_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    assert any(simulate(draw(seed)).problem for seed in range(2000))


def test_failing_seed_is_shrunken_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED["splits_do_not_rewind"](monkeypatch)
    failure = hunt(range(2000)).failure
    assert failure is not None
    original, small = draw(failure.seed), failure.shrunken
    assert len(small.faults) <= len(original.faults)
    assert sum(small.splits) <= sum(original.splits)
    assert small != original
    assert simulate(small).problem
    text = str(failure)
    assert f"seed {failure.seed}" in text
    assert "FAULT" in text
    assert "Rewind" in text or "CreateHost" in text


def test_there_are_enough_planted_bugs() -> None:
    assert len(PLANTED) >= 10
    assert all(plant.__doc__ for plant in PLANTED.values())
