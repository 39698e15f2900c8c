"""Plans are played in the mode that was asked for: how many are in flight there, and what they say of it."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.models import ctrdnn
from heterps.planner import FixedRate, MaxThroughput, Request, plan, play
from heterps.planner.costs.steady import steady_play
from heterps.planner.show.figures import counted_text
from heterps.planner.show.html import report_html
from heterps.protocol.words.modes import Async, Sync
from heterps.stages import layers_of
from tests.unit.planner.conftest import RENTED

TWO_STAGES = {"goal": MaxThroughput(20), "batch_size": 4096, "pins": {"fc*": "gpu"}}


def played(made, hardware):
    splits = (4 * made.depth + 12,) * made.lanes
    return play(made, hardware, splits=splits).rows_per_second / made.forecast.rows_per_second


@pytest.fixture(scope="module")
def ordered(rented):
    return plan(ctrdnn(), rented, mode=Sync(), **TWO_STAGES)


def test_a_lane_of_sync_has_one_batch_in_flight_so_there_are_more_lanes(ordered, rented):
    free = plan(ctrdnn(), rented, **TWO_STAGES)
    workers = sum(ordered.stages[0].workers.values())
    assert ordered.lanes == workers * free.depth > workers
    assert (ordered.depth, ordered.depths) == (1, {})
    assert ordered.memory_bytes == free.memory_bytes  # of as many batches
    assert played(ordered, rented) > 2 * played(replace(ordered, lanes=workers), rented)
    text = ordered.report()
    assert f"{ordered.lanes} lanes on {counted_text(workers, 'worker')}, sync mode" in text
    assert f"a step adds up {ordered.lanes * 4096:,} rows" in text


def test_a_worker_has_one_lane_where_that_is_enough(rented):
    """A step adds up all lanes, so there are no more than it takes."""
    made = plan(ctrdnn(), rented, goal=FixedRate(1e4), batch_size=4096, mode=Sync())
    assert made.lanes == sum(made.stages[0].workers.values())
    assert made.forecast.played > 0.9 * 1e4


def test_what_is_played_below_its_forecast_says_so(ordered, rented):
    forecast = ordered.forecast
    assert forecast.falls_short
    words = f"{forecast.played / forecast.rows_per_second:.2f} of the forecast: lanes wait for one another"
    page = report_html(ordered, layers_of(ordered.graph, batch_size=4096))
    assert words in ordered.report()
    assert words in page
    assert hps.Plan.from_json(json.loads(json.dumps(ordered.to_json()))).forecast.played == forecast.played
    assert steady_play(ordered, Request(ctrdnn(), rented, MaxThroughput(20), (4096,)).costs(4096))[0].mode == Sync()


def test_what_reaches_its_forecast_has_no_more_to_say(rented):
    made = plan(ctrdnn(), rented, **TWO_STAGES)
    assert made.forecast.played > 0.9 * made.forecast.rows_per_second
    assert "played" not in made.report()


def test_more_is_left_free_where_a_plan_would_not_reach_what_was_asked_for(rented):
    asked = {"goal": FixedRate(3e5), "batch_size": 1024}
    made = plan(ctrdnn(), rented, mode=Sync(), **asked)
    assert made.forecast.played > 0.9 * 3e5
    assert any("of everything stays free" in text for text in made.assumptions)
    assert not any("of everything stays free" in text for text in plan(ctrdnn(), rented, **asked).assumptions)


def test_what_is_not_reached_is_a_warning(rented, monkeypatch):
    monkeypatch.setattr("heterps.planner.planner._TRIES", 0)
    made = plan(ctrdnn(), rented, goal=FixedRate(3e5), batch_size=1024, mode=Sync())
    assert made.forecast.misses
    assert "warning: 300k rows/s were asked for, which it does not reach" in made.report()


def test_a_depth_that_is_given_is_that_of_the_plan(rented):
    """There are more lanes where these must not be as deep as they would be."""
    asked = {"goal": FixedRate(5e6), "batch_size": 4096, "pins": {"fc*": "gpu"}}
    free, given = plan(ctrdnn(), rented, **asked), plan(ctrdnn(), rented, mode=Async(3), **asked)
    assert (given.depth, given.mode) == (3, Async(3))
    assert free.depth > 3
    assert given.lanes > free.lanes
    assert "at most 3 of them in flight for each worker that reads" in given.certificate.proof
    assert played(given, rented) > 0.85
    assert free.certificate.value <= given.certificate.value


def test_a_mode_without_a_depth_leaves_it_to_the_planner(tmp_path):
    (tmp_path / "hw.toml").write_text(RENTED)
    command = ["plan", "ctrdnn", "--hardware", str(tmp_path / "hw.toml"), "--budget", "20", "--batch-size", "4096"]
    depths = {}
    for mode in ("async", "async:2"):
        found = CliRunner().invoke(main, [*command, "--pin", "fc*=gpu", "--mode", mode, "--json"])
        depths[mode] = hps.Plan.from_json(json.loads(found.output)).depth
    assert depths["async:2"] == 2 < depths["async"]
