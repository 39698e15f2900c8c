"""The hunter is itself tested: each planted bug must be found, and cut down to a history one can read."""

import pytest

from heterps.simulator import draw, hunt, simulate
from tests.unit.protocol.planted import PLANTED

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same


RARE = (
    "commit_too_early",
    "cut_ignores_lanes_that_ended",
    "one_host_says_where_lanes_are",
)  # which take many seeds to find
COPIES = {  # of workers with rows of their own: found in worlds that have them, some only after many
    "next_unit_before_the_last_is_settled": True,
    "unfinished_range_stays_in_the_copy": True,
    "settled_anew_whenever_it_is_sent": False,
    "changes_are_forgotten_when_told": False,
    "moments_of_other_tables_count": True,
    "late_rows_replace_newer_ones": False,
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n in RARE else n for n in PLANTED if n not in COPIES]
)
def test_planted_bug_is_found_within_2000_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    everything = name.startswith("hand_over")  # of single shards, which no engine does
    assert any(simulate(draw(seed, everything)).problem for seed in range(4000 if name in RARE else 2000))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if rare else n for n, rare in COPIES.items()])
def test_planted_bug_of_a_copy_is_found_among_4000_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    worlds = (world for world in map(draw, range(4000)) if world.spec.mode.has_copy)
    assert any(simulate(world).problem for world in worlds)


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
