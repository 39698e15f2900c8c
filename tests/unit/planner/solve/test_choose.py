"""Batch sizes: where workers have little memory, a plan that fits is found before deeper ones are looked for."""

from dataclasses import replace

import pytest

from benchmarks.plan_scale import SMALL_MEMORY, chain
from graphs.wide_deep import wide_deep
from heterps.hardware import Hardware
from heterps.planner import FixedRate, MaxThroughput, MinCost, Request, plan
from heterps.planner.solve import choose
from heterps.planner.solve.effort import NEVER, Deadline, UndecidedError
from tests.unit.planner.solve.test_large import with_tables

GOAL = FixedRate(5e4)


def test_all_batch_sizes_are_looked_at_before_plans_are_made_deeper(monkeypatch):
    asked, planned = [], choose.planned

    def recorded(problem, *args, **options):
        asked.append(problem.way_from)
        return planned(problem, *args, **options)

    monkeypatch.setattr(choose, "planned", recorded)
    hardware, graph = Hardware.from_toml(SMALL_MEMORY), chain(200)
    made = plan(graph, hardware, goal=GOAL)
    deeper = [way > 0 for way in asked]
    assert any(deeper), "nothing of this case is without room"
    assert deeper[:8] == [False] * 8  # batches of 256 to 32,768
    alone = plan(graph, hardware, goal=GOAL, batch_size=made.batch_size)
    assert made.certificate.value <= alone.certificate.value * (1 + 1e-3)


def changed(monkeypatch, change):
    """Let what is found at batches of 8,192 be something else."""
    planned = choose.planned

    def other(problem, *args, **options):
        outcome = planned(problem, *args, **options)
        return change(outcome) if problem.cut_memory == 8192 else outcome

    monkeypatch.setattr(choose, "planned", other)
    monkeypatch.setattr(choose.Choosing, "close_in", lambda self: None)


@pytest.mark.parametrize("goal", [FixedRate(5e5), MinCost(5e5), MaxThroughput(20.0)])
def test_batch_sizes_of_which_nothing_is_known_stay_open(rented, monkeypatch, goal):
    """The larger one is better, and is not decided: what is known of it is the bound, or what fractions say."""
    request = Request(wide_deep(), rented, goal, (256, 8192))
    best = choose.choose(request, NEVER).draft.found.value
    for known in (None, best * (1.1 if goal.rises else 0.9)):

        def undecided(outcome, known=known):
            raise UndecidedError("nothing is decided", known)

        with monkeypatch.context() as patched:
            changed(patched, undecided)
            choice = choose.choose(request, NEVER)
        assert choice.draft.costs.batch_size == 256
        assert choice.bound >= best * (1 - 1e-9) if goal.rises else choice.bound <= best * (1 + 1e-9)
        assert known is None or choice.bound == known


def test_what_a_search_leaves_open_at_one_batch_size_is_open_in_all(rented, monkeypatch):
    def half_proved(outcome):
        found = outcome.found
        return outcome if found is None else replace(outcome, found=replace(found, bound=found.value / 2))

    changed(monkeypatch, half_proved)
    choice = choose.choose(Request(wide_deep(), rented, FixedRate(1e3), (256, 8192)), NEVER)
    assert choice.bound == pytest.approx(choice.draft.found.value / 2)


def test_what_nobody_decided_is_not_said_to_be_impossible(rented, monkeypatch):
    def undecided(*args, **options):
        raise UndecidedError("nothing is decided")

    monkeypatch.setattr(choose, "planned", undecided)
    with pytest.raises(UndecidedError, match=r"batches of 256: nothing is decided"):
        choose.choose(Request(wide_deep(), rented, FixedRate(1e3), (256,)), NEVER)


def test_every_pool_that_may_carry_shard_hosts_is_looked_at():
    text = '[[pool]]\nname = "{}"\ndevice = "c6i-8xlarge"\ncap = 40\nprice_per_hour = {}\n'
    hardware = Hardware.from_toml(text.format("dear", 50.0) + text.format("cheap", 1.0))
    assert plan(wide_deep(), hardware, goal=FixedRate(1e5), batch_size=4096).shard_pool == "cheap"


def test_batch_sizes_that_there_was_no_time_for_are_named(rented, monkeypatch):
    monkeypatch.setattr(choose.Choosing, "_is_late", property(lambda self: bool(self.drafts)))  # once there is a plan
    choice = choose.choose(Request(wide_deep(), rented, FixedRate(1e3), (256, 512, 1024)), NEVER)
    assert choice.over == "batches of 1,024 rows; not looked at for lack of time: 256, 512"


@pytest.mark.parametrize(("budget", "said"), [(1e10, True), (40.0, False)])
def test_where_stages_of_many_workers_are_left_out_that_is_said(budget, said):
    hardware = Hardware.from_toml(
        '[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\ncap = 40\n[[product]]\nname = "g6-xlarge"\n'
    )
    made = plan(wide_deep(), hardware, goal=MaxThroughput(budget), batch_size=4096)
    assert ("stages of fewer than 2,147,483,648 workers" in made.certificate.proof) is said


def test_what_is_spent_is_what_is_to_be_paid():
    """They differed by one in a thousand million: pools that carry shard hosts cost so much more in the search."""
    hardware = Hardware.from_toml('[[pool]]\nname = "cpu"\ndevice = "c6i-8xlarge"\n')
    made = plan(wide_deep(), hardware, goal=MaxThroughput(1e12), batch_size=4096)
    assert any(text.startswith(f"{made.forecast.price_per_hour:,.2f} of the budget") for text in made.assumptions)


def test_bounds_of_large_graphs_wait_for_the_best_plan_of_all_batch_sizes(rented):
    request = Request(with_tables(range(8, 100)), rented, MinCost(1e5), (1024, 2048, 4096))
    choosing = choose.Choosing(request, Deadline(20.0))
    choosing.look()
    before = choosing.choice
    assert any(look.loose for look in choosing.looks)
    choosing.close_in()
    assert before.bound < choosing.choice.bound <= choosing.choice.draft.found.value
    assert not choosing._decisive.loose
