"""The core of a problem: every plan is within its own limits there, and what no plan keeps to is found out."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from heterps.planner import FixedRate, MinCost
from heterps.planner.solve import bands, core_problem, type_bands
from heterps.planner.solve.branch_ends import branches_of, ends_of
from heterps.planner.solve.core_problem import core_of
from heterps.planner.solve.effort import NEVER
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.path_mixtures import Limits, Mixtures, _divided, _Path
from heterps.planner.solve.placement import Flow, Shards
from heterps.planner.solve.solvers import exact
from heterps.planner.solve.type_bands import TypeBands
from tests.unit.planner.core_instances import branching, plans_of
from tests.unit.planner.lane_plans import LanePlans

FEW, MANY = range(40), range(40, 540)
EVERY = pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])


def is_out(core, x, units, way_from, way_to, most=40):
    part = replace(core, bare=replace(core.bare, way_from=way_from))
    return Mixtures(core).units_within(part, x, Limits(units, way_to), NEVER, most) is None


@EVERY
@pytest.mark.parametrize("states", [8_000, 6], ids=["branches", "fewer"])
def test_every_plan_is_within_its_own_limits(seeds, states, monkeypatch):
    """Whatever is left out: with as many units, and as many batches in flight, as a plan has, it is not out."""
    monkeypatch.setattr(core_problem, "_MOST_STATES", states)
    looked = left = 0
    for seed in seeds:
        problem = branching(seed)
        core = core_of(problem)
        if core is None:
            continue
        left += problem.layers - core.bare.layers
        for x, units, way in plans_of(problem, seed, most=12):
            assert not is_out(core, x, units, way * (1 - 1e-9), way * (1 + 1e-9)), f"seed {seed}: {x}, {units}, {way}"
            looked += 1
    assert looked > 200
    assert left > 50


@EVERY
def test_much_that_no_plan_keeps_to_is_found_out(seeds):
    """A unit less of a type than any plan has with so many of the others, at so many rows a second, or it is open."""
    found = open_ = 0
    for seed in seeds[:300:2]:
        problem = branching(seed)
        core, plans = core_of(problem), [*plans_of(problem, seed, most=10_000)]
        if core is None or not plans:
            continue
        x = max(x for x, _, _ in plans) / 2
        fits = {tuple(units) for at, units, _ in plans if at >= x}
        for units in itertools.product(range(4), repeat=2):
            if not any(all(a <= b for a, b in zip(each, units, strict=True)) for each in fits):
                out = is_out(core, x, np.array(units, float), problem.least_way, np.inf)
                found, open_ = found + out, open_ + (not out)
    assert found > 2 * open_


def chain_with_table(**more):
    """Rows are pulled on a CPU and pooled anywhere, for a layer on a GPU."""
    figures = {
        "seconds": [[[0.1, 9], [0.2, 9], [0.3, 0.5], [9, 1.0]], [[0.0] * 2] * 4, [[0.0] * 2] * 4],
        "allowed": [(True, False), (True, False), (True, True), (False, True)],
        "flows": [Flow(0, 1, "ids", 1.0), Flow(1, 2, "rows", 4.0, 2.0), Flow(2, 3, "pooled", 7.0, 7.0)],
        "receive_s": [[0.0, 0.0], [0.01, 0.02], [0.0, 0.0]],
        "send_s": [[0.0, 0.0], [0.0, 0.0], [0.03, 0.04]],
        "memory": [[0.0, 0.0], [0.0, 0.0], [0.0, 0.7], [0.0, 1.0]],
        "memory_cap": 10.0,
        "layer_held": [[0.0, 0.0], [0.0, 0.0], [0.5, 0.6], [0.0, 1.0]],
        "cut_memory": 0.1,
        "layer_way": [[0.1, 0.0], [0.1, 0.0], [0.2, 0.3], [0.0, 0.4]],
        "cut_way": [0.01, 0.02],
    }
    return make_problem(**(figures | more))


def test_a_core_has_the_first_stage_of_every_plan_or_there_is_none():
    assert core_of(chain_with_table()) is not None
    assert core_of(chain_with_table(flows=chain_with_table().flows[1:])) is None  # what is pulled may be read before
    assert core_of(chain_with_table(mixes=[(0, 1)])) is None


def test_a_branch_is_what_only_its_end_reads():
    (branch,) = branches_of(chain_with_table())
    assert (branch.layers, branch.end) == ((1, 2), 3)
    read_twice = chain_with_table(flows=[*chain_with_table().flows, Flow(1, 3, "rows", 4.0, 2.0)])
    assert branches_of(read_twice) == []
    beside = chain_with_table(flows=[*chain_with_table().flows, Flow(0, 3, "labels", 1.0)])
    assert [branch.layers for branch in branches_of(beside)] == [(1, 2)]


def test_what_several_read_is_no_part_of_a_branch_but_its_end():
    edges = [(0, 1), (1, 2), (2, 3), (2, 4)]
    problem = make_problem([[0.1, 0.1]] * 5, flows=[Flow(a, b, f"{a}", 1.0) for a, b in edges])
    (branch,) = branches_of(problem)
    assert (branch.layers, branch.end, len(branch.tensors)) == ((1,), 2, 1)


def test_what_reads_several_ends_the_branches_before_it():
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    problem = make_problem([[0.1, 0.1]] * 5, flows=[Flow(a, b, f"{a}", 1.0) for a, b in edges])
    assert [(branch.layers, branch.end) for branch in branches_of(problem)] == [((1,), 3), ((2,), 3)]


@EVERY
def test_no_plan_has_fewer_batches_in_flight_than_its_core_or_as_many_more(seeds):
    """What is left out is in flight where that takes least: no more, and no less, than in the whole problem."""
    for seed in seeds:
        problem = branching(seed)
        core = core_of(problem)
        if core is not None:
            assert core.bare.least_way == pytest.approx(problem.least_way), seed


SOLD = {  # units in one, product of each type, and the shard hosts
    "single": ([1, 1], [0, 1], Shards(0.4, 1, 1.0, 0)),
    "machines": ([2, 1], [0, 0], Shards(0.4, 1, 1.0, 0)),
    "packs": ([2, 3], [0, 1], Shards(0.6, 2, 1.5, -1)),
}


@pytest.mark.parametrize("seeds", [(2, 22, 23), pytest.param(range(60), marks=pytest.mark.full)], ids=["few", "many"])
@pytest.mark.parametrize("sold", SOLD)
def test_no_plan_is_better_than_bands_over_a_core_say(seeds, sold, monkeypatch):
    monkeypatch.setattr(type_bands, "FEW_STATES", 0)
    monkeypatch.setattr(bands, "_MOST_BANDS", 12)
    sold_in, product, hosts = SOLD[sold]
    looked = 0
    for seed in seeds:
        more = {"sold_in": np.array(sold_in), "product": np.array(product), "cap": np.array([8.0, 9.0])}
        problem = replace(branching(seed), shards=hosts, **more)
        goal = (FixedRate(1.2), MinCost(1.0, 1.6), MinCost(0.7, 3.0, 20.0))[seed % 3]
        if problem.layers > 4 or core_of(problem) is None or not (best := LanePlans(problem).best(goal)):
            continue
        made = TypeBands(problem, goal, exact, lambda best=best: 1.02 * best, lambda outcome: None, NEVER)
        assert made.closer(goal.bound(problem)) <= best * (1 + 1e-6), seed
        looked += 1
    assert looked > 2


def test_what_a_branch_takes_beside_its_end_is_what_crosses_and_what_is_behind():
    problem = chain_with_table()
    end = ends_of(problem, branches_of(problem))[3, 1]
    apart = [0.0, 7 * 0.02, 7 * 0.04, 0.0, 14 * 0.1, 14 * 0.02]  # pooled rows come, their gradients go
    together = [0.5, 4 * 0.02, 2 * 0.04, 0.7, 0.6 + 6 * 0.1, 6 * 0.02 + 0.1]
    assert end.beside[0] == pytest.approx(np.array([apart, together]))
    assert end.least_beside(0.0, 1.0) == pytest.approx(np.minimum(apart, together))
    assert end.least_beside(0.5, 1.0) == pytest.approx(
        [min(each) for each in zip(np.add(apart, together) / 2, together, strict=True)]
    )
    assert end.least_beside(1.0, 1.0) == pytest.approx(together)


def test_a_branch_may_be_in_the_stage_of_its_end_as_a_whole_or_in_part():
    problem = chain_with_table(allowed=[(True, False), (True, True), (True, True), (True, True)])
    end = ends_of(problem, branches_of(problem))[3, 1]
    in_part = [0.5, 4 * 0.02, 2 * 0.04, 0.7, 0.6 + 6 * 0.1, 6 * 0.02 + 0.1]
    whole = [9.5, 0.0, 0.0, 0.7, 0.6, 0.1]
    assert end.beside[0, 1] == pytest.approx(np.minimum(in_part, whole))


def test_a_branch_takes_parts_of_units_in_each_case():
    problem = chain_with_table()
    end = ends_of(problem, branches_of(problem))[3, 1]
    assert end.together[0].tolist() == [0.0, 0.0, 1.0]  # pooled on the CPU; on a GPU, elsewhere or with the end
    pulled, pooled = np.array([0.2, 0.0, 0.0, 0.0]), np.array([0.5, 0.0, 0.0, 0.6 / 9.3])
    on_cpu = [0.5, 7 * 0.01, 7 * 0.03, 0.5 / 10 + 14 * 0.01], [0.0, 7 * 0.02, 7 * 0.04, 14 * 0.01]
    sent = np.array([0.0, 2 * 0.01, 4 * 0.03, 6 * 0.01])
    came = np.array([0.0, 4 * 0.02, 2 * 0.04, 6 * 0.01])
    moved = np.array([0.0, 14 * 0.02, 14 * 0.04, 28 * 0.01])
    wanted = [
        np.concatenate(on_cpu),
        [*(pulled + sent), *(pooled + came + moved)],
        [*(pulled + sent), *(pooled + came)],
    ]
    assert end.cases[0] == pytest.approx(np.array(wanted))


def test_of_many_branches_those_are_together_where_it_costs_least():
    problem = chain_with_table()
    end = ends_of(problem, branches_of(problem))[3, 1]
    two = replace(
        end,
        beside=np.array([[[1.0], [3.0]], [[1.0], [2.0]]]),
        weight=np.array([0.25, 0.75]),
    )
    assert two.least_beside(0.0, 1.0) == [2.0]
    assert two.least_beside(0.75, 1.0) == [3.0]  # the second alone
    assert two.least_beside(0.9, 1.0) == pytest.approx([3.0 + 2.0 * 0.15 / 0.25])
    assert replace(two, beside=-two.beside).least_beside(0.0, 0.75) == pytest.approx([-2 - 2 - 0.5 / 0.75])


def test_parts_of_plans_have_every_place_and_every_share():
    problem = chain_with_table()
    core = core_of(problem)
    assert core.bare.layers == 2
    mixed = [_Path(np.zeros(1), np.zeros(2), np.array(types)) for types in ([0, 1], [0, 0])]
    wide = replace(core, bare=replace(core.bare, allowed=np.ones((2, 2), np.bool_)))
    places = [part.bare.allowed[1].tolist() for part in _divided(wide, mixed)]
    assert places == [[False, True], [True, False]]
    parts = [*_divided(wide, mixed[:1])]
    assert [part.shares.get((1, 1)) for part in parts] == [(0.0, 0.5), (0.5, 1.0), None]
    assert [part.bare.allowed[1].tolist() for part in parts] == [[False, True], [False, True], [True, False]]
    narrow = replace(core, shares={(1, 1): (0.5, 0.55)})
    assert [*_divided(narrow, mixed[:1])] == []
