"""What people ask: a job of so many rows, head-room, batch sizes within limits."""

import re
from dataclasses import replace

import pytest

from benchmarks.plan_budgets import jobs as drawn_jobs
from heterps.errors import PlanError
from heterps.hardware import Device, Hardware, Pool
from heterps.models import dlrm, wide_deep
from heterps.planner import FixedRate, MaxThroughput, MinCost, Request, compare, plan
from heterps.planner.planner import solve
from heterps.planner.show.job import job_text, parse_batch_sizes, parse_duration, parse_percent
from tests.unit.planner.solve.test_large import with_tables


@pytest.mark.parametrize("goal", [MinCost(2e7), FixedRate(2e7), MaxThroughput(40.0)], ids=["cost", "rate", "most"])
def test_head_room_is_left_everywhere(rented, goal):
    tight = plan(with_tables([8, 16]), rented, goal=goal, batch_size=4096)
    loose = plan(with_tables([8, 16]), rented, goal=goal, batch_size=4096, head_room=0.2)
    assert max(loose.forecast.busy.values()) <= 0.8 + 1e-9
    assert loose.forecast.shard_busy <= 0.8 + 1e-9
    if goal.rises:
        assert max(tight.forecast.shard_busy, *tight.forecast.busy.values()) > 0.8
        assert loose.forecast.rows_per_second < tight.forecast.rows_per_second
    else:
        assert loose.forecast.price_per_hour >= tight.forecast.price_per_hour
    assert "20% of everything stays free" in loose.assumptions


def test_head_room_is_a_part(rented):
    with pytest.raises(PlanError, match="head_room is 1"):
        plan(with_tables([8]), rented, goal=MinCost(1e6), head_room=1.0)


def test_a_job_has_a_time_and_a_price(rented):
    made = plan(with_tables([8]), rented, goal=MinCost(4e9 / 21600), batch_size=4096)
    text = job_text(made, 4e9, 21600, 200)
    assert text.startswith("Job: 4.00G rows in ")
    assert 4e9 / made.forecast.rows_per_second <= 21600
    with pytest.raises(
        PlanError, match=r"4.00G rows within 6\.0 h cost \$.* \(no plan costs less: .*\), the budget is"
    ):
        job_text(made, 4e9, 21600, 1e-6)
    assert job_text(made, None, None, None) == ""


def test_more_time_is_no_remedy_where_the_plan_takes_little_of_it(rented):
    made = plan(with_tables([8]), rented, goal=MinCost(1e6), batch_size=4096)
    rows, rate = 1e9, made.forecast.rows_per_second
    with pytest.raises(PlanError, match=r"raise it \(the cheapest plan takes .*, so more time hardly helps\)$"):
        job_text(made, rows, 3 * rows / rate, 1e-6)
    with pytest.raises(PlanError, match=r"raise it, or give more time \(--deadline\)$"):
        job_text(made, rows, 1.1 * rows / rate, 1e-6)


def test_a_job_is_named_as_it_was_asked_for():
    assert MinCost.of_job(4e9, 21600).text.endswith("185,185 rows/s (4,000,000,000 rows within 6 h)")
    assert MinCost(5.0).text == "least price per row with at least 5 rows/s"
    assert "at least 0.00139 rows/s (5 rows within 1 h)" in MinCost.of_job(5, 3600).text


def test_large_batches_are_named(rented):
    made = plan(with_tables([8]), rented, goal=MinCost(1e6), batch_size=16384)
    assert any("large batches change what is learned" in text for text in made.assumptions)
    assert not any(
        "large batches" in text for text in plan(with_tables([8]), rented, goal=MinCost(1e6), batch_size=64).assumptions
    )


def test_figures_are_read():
    assert [parse_duration(text) for text in ("90s", "1.5h", "2d", "90m")] == [90, 5400, 172800, 5400]
    assert [parse_percent(text) for text in ("20%", "0.2", 0.0)] == [0.2, 0.2, 0.0]
    assert parse_batch_sizes("4096") == (4096,)
    assert parse_batch_sizes("256..1k") == (256, 512, 1000)


BAD = {
    parse_duration: ("6", "0h", "x", "1.2.3h", "1e400h"),
    parse_percent: ("100%", "a", "-1%"),
    parse_batch_sizes: ("0", "8..4", "1.5", "256..", "..", "many"),
}


@pytest.mark.parametrize(("read", "text"), [(read, text) for read, texts in BAD.items() for text in texts])
def test_what_is_no_figure_is_refused(read, text):
    with pytest.raises(PlanError, match=f"^{re.escape(repr(text))} is .*: write"):
        read(text)


def test_a_small_job_takes_as_long_as_the_cheapest_machine_does(rented):
    asked = MinCost(12.0)
    made = plan(with_tables([8]), rented, goal=asked)
    assert made.forecast.rows_per_second > 1000 * asked.rows_per_second
    assert max(made.forecast.shard_busy, *made.forecast.busy.values()) > 0.99
    assert made.forecast.bottleneck.startswith("stage")
    fastest = plan(with_tables([8]), rented, goal=MaxThroughput(made.forecast.price_per_hour))
    assert fastest.forecast.rows_per_second <= made.forecast.rows_per_second * (1 + 2e-3)
    assert made.certificate.gap < 1e-9
    asked_for = plan(with_tables([8]), rented, goal=FixedRate(asked.rows_per_second))
    limit = 2 * asked_for.forecast.price_per_hour
    assert made.forecast.price_per_hour <= limit
    assert f"all plans within the limit of {limit:,.2f}" in made.certificate.proof
    assert all(rival.rows_per_second is None or rival.rows_per_second > 1000 for rival in made.rivals)


def test_whoever_says_up_to_which_throughput_is_heard(rented):
    made = plan(with_tables([8]), rented, goal=MinCost(12.0, up_to=24.0), batch_size=4096)
    assert made.forecast.rows_per_second == pytest.approx(24.0)
    assert made.forecast.bottleneck.startswith("what was asked for, then ")


def test_solvers_are_compared_up_to_the_same_throughput(rented):
    request = Request(with_tables([8, 16]), rented, MinCost(12.0), (1024, 4096))
    found = {name: made.forecast.price_per_million_rows for name, made, _ in compare(request) if made is not None}
    assert found["exact"] <= min(found.values()) * (1 + 1e-3)
    assert found["exact"] < 1.0


def test_short_jobs_are_told_in_seconds(rented):
    made = plan(with_tables([8]), rented, goal=MinCost(1e6), batch_size=4096)
    assert re.fullmatch(r"Job: 1\.00M rows in [0-9.]+ m?s, \$[0-9.e-]+", job_text(made, 1e6, None, None))


def test_a_job_that_may_take_longer_does_not_cost_more():
    """Within 16 hours it cost 1.7 times as much as within 2: fewer machines, used less well, were all there was.

    A limit on the price an hour leaves less of that, until there is so much time that little has to be done in an hour.
    """
    rented = Hardware.from_toml(
        '[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\n\n[[product]]\nname = "p3-2xlarge"\ncap = 8\n'
    )
    goals = [MinCost.of_job(1.96e10, 3600 * hours) for hours in (2, 160)]
    short, long = (plan(wide_deep(), rented, goal=goal).certificate.value for goal in goals)
    assert long <= short * 1.051
    assert plan(wide_deep(), rented, goal=MinCost(1.96e10 / 576000)).certificate.value > 1.06 * long


def test_a_job_is_hurried_where_machines_are_used_well_already():
    """It cost 1.2 times what it does at twice the speed that was looked at, as plans near it cost no less."""
    rented = Hardware.from_toml(
        '[[pool]]\nname = "cpu"\ndevice = "c6a-8xlarge"\ncap = 64\n\n[[product]]\nname = "p4d-24xlarge"\ncap = 4\n\n'
        '[[product]]\nname = "g6-xlarge"\ncap = 4\n'
    )
    rows, seconds = 1.64e9, 2700.0
    hurried = plan(dlrm(), rented, goal=MinCost(rows / seconds, up_to=rows / 900), replicas=2).certificate.value
    assert plan(dlrm(), rented, goal=MinCost.of_job(rows, seconds), replicas=2).certificate.value <= 1.051 * hurried


def test_a_job_is_hurried_as_far_as_the_shortest_one_goes():
    """Within more time it cost a tenth more than within half an hour, whose plans may be as fast as they cost."""
    short, longer, *_ = (solve(request).certificate.value for _, request in drawn_jobs(3011).requests(30.0))
    assert longer <= short * 1.051


def test_what_costs_nothing_takes_no_longer_than_it_must():
    """One machine of one's own does ten times what was asked for: the job is not said to take as long as it may."""
    own = Device("own", "cpu", {"float32": 2e11}, 16e9, 2e10, 1e9, cores=4)
    cloud = replace(own, name="cloud", price_per_hour=1.0)
    hardware = Hardware((Pool("own", own, cap=3), Pool("cloud", cloud)))
    made = plan(wide_deep(), hardware, goal=MinCost(2_778.0))
    assert made.forecast.price_per_hour == 0
    assert made.forecast.stages[0].busy > 0.99
