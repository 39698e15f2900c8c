"""The simulator on the real protocol: no seed may break the promise."""

from dataclasses import replace
from itertools import islice

import pytest

from heterps.simulator import draw, hunt, simulate
from heterps.simulator.coverage import UNPLAYED, never_met, words_of_engines
from heterps.simulator.scenario import FAULTS, UNDRIVEN

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same

SEEDS, CHUNKS, QUICK = 20_000, 16, 4
SELDOM = {"join compute", "freeze compute"}  # drawn for some four in a thousand worlds: not in every chunk


@pytest.mark.parametrize(
    "chunk", [chunk if chunk < QUICK else pytest.param(chunk, marks=pytest.mark.full) for chunk in range(CHUNKS)]
)
def test_every_seed_keeps_the_promise(chunk: int) -> None:
    size = SEEDS // CHUNKS
    found = hunt(range(chunk * size, (chunk + 1) * size))
    assert found.failure is None, str(found.failure)
    assert found.seeds == size
    noise = {"message lost", "message duplicated", "message late"}
    due = {*FAULTS, *noise} - set(UNDRIVEN)
    assert due - SELDOM <= set(found.fired) <= due, "every kind of fault but the seldom ones must fire in every chunk"
    assert set(found.modes) == {"sync", "async", "geo", "cache", "mixed", "mixed-sync"}
    assert not never_met(found.met), "every word of an engine must be met in every chunk"


@pytest.mark.parametrize("kind", sorted(SELDOM))
def test_what_is_seldom_drawn_fires_where_it_is(kind: str) -> None:
    worlds = (seed for seed in range(SEEDS) if any(fault.kind == kind for fault in draw(seed).faults))
    found = hunt(islice(worlds, 20))
    assert found.failure is None, str(found.failure)
    assert found.fired[kind] >= 10


def test_worlds_are_those_of_engines_unless_everything_is_asked_for() -> None:
    drawn, everything = ([draw(seed, all_) for seed in range(200)] for all_ in (False, True))
    moving = {fault.kind for world in everything for fault in world.faults} & set(UNDRIVEN)
    assert moving == set(UNDRIVEN)
    assert not {fault.kind for world in drawn for fault in world.faults} & set(UNDRIVEN)
    assert any(world.lazy for world in everything)
    assert not any(world.lazy or world.slots > 1 for world in drawn)


@pytest.mark.full
def test_everything_that_the_protocol_knows_is_met_and_keeps_the_promise() -> None:
    found = hunt(range(2000), everything=True)
    assert found.failure is None, str(found.failure)
    assert not never_met(found.met, everything=True)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(100))
def test_a_million_seeds_keep_the_promise(chunk: int) -> None:
    found = hunt(range(10_000_000 + chunk * 10_000, 10_000_000 + (chunk + 1) * 10_000))
    assert found.failure is None, str(found.failure)


def test_a_seed_is_a_history() -> None:
    for seed in (1, 2, 3):
        first, second = simulate(draw(seed), trace=True), simulate(draw(seed), trace=True)
        assert first.trace
        assert first.trace == second.trace
        assert first.fired == second.fired


def test_waiting_for_ever_is_noticed() -> None:
    scenario = replace(draw(1), io=0, faults=())
    problem = simulate(scenario).problem
    assert "waiting for" in problem
    assert "an io worker to run Splits" in problem


def test_words_that_no_seed_met_are_named() -> None:
    words = words_of_engines()
    assert {"BackupReady", "ServersJoined", "Promote", "LetGo", "Forward", "Confirm"} <= words
    assert not words & set(UNPLAYED)
    assert never_met(dict.fromkeys(words - {"Promote"}, 1)) == ["Promote"]
