"""Stages as they are, within the program over types: each rule at its edge, on instances that are made by hand.

Which mistakes they find is told in :mod:`tests.unit.planner.test_stage_rules`.
"""

from dataclasses import replace

import numpy as np
import pytest

from heterps.planner import FixedRate, MinCost
from heterps.planner.solve.effort import NEVER
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.one_stage import MOST_HELD
from heterps.planner.solve.placement import Flow, Shards
from heterps.planner.solve.type_program import TypeProgram
from tests.unit.planner import lane_plans
from tests.unit.planner.stage_instances import ANCHORED, BARE, LANES, bound_of


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_what_comes_to_a_stage_leaves_only_the_type_of_the_one_before_it(stages):
    """Three stages, as the second and the third Layer do not fit a worker together: those who read send little."""
    one, other, none = (0.9, 0.0), (0.0, 0.9), (0.0, 0.0)
    problem = make_problem(
        [[one, other, other], [none] * 3, [none] * 3],
        allowed=[(True, False), (False, True), (False, True)],
        flows=[Flow(0, 1, "a", 0.01), Flow(1, 2, "b", 1.0)],
        send_s=[none, none, (0.9, 0.1)],
        memory=[none, (0.0, 0.6), (0.0, 0.7)],
        memory_cap=1.0,
        layer_held=[none, (1e-3, 1e-3), (2e-3, 2e-3)],
        way=1.0,
        cut_way=1e-3,
    )
    best, bound = bound_of(problem, stages)
    assert best == 3.0
    assert bound == pytest.approx(3.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_of_equal_branches_some_are_in_a_stage_and_some_are_not(stages):
    half = [0.5, 0.5]
    problem = make_problem(
        [half] * 4,
        allowed=[(True, False), (True, True), (True, True), (False, True)],
        flows=[Flow(0, 1, "a", 0.01), Flow(0, 2, "b", 0.01), Flow(1, 3, "c", 0.01), Flow(2, 3, "d", 0.01)],
        memory_cap=1.0,
        layer_held=1e-3,
        way=1.0,
        cut_way=1e-3,
    )
    best, bound = bound_of(problem, stages)
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_a_tensor_that_all_branches_of_a_stage_read_does_not_cross(stages):
    """It would not fit beside what a worker holds."""
    problem = make_problem(
        [[0.5, 0.0], *[[0.0, 0.2]] * 4],
        allowed=[(True, False), *[(False, True)] * 4],
        flows=[
            Flow(0, 1, "a", 0.01),
            *(Flow(1, v, "b", 1.0) for v in (2, 3)),
            Flow(2, 4, "c", 0.01),
            Flow(3, 4, "d", 0.01),
        ],
        memory_cap=1.0,
        layer_held=0.1,
        cut_memory=1.0,
        way=1.0,
    )
    best, bound = bound_of(problem, stages)
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_a_worker_may_have_room_for_all_batches_and_no_more(stages):
    """Who hands batches on may give it all that there are: one more than its part need not fit."""
    problem = make_problem(
        [[0.5, 0.0], [0.0, 0.5]],
        allowed=[(True, False), (False, True)],
        flows=[Flow(0, 1, "a", 0.01)],
        memory_cap=1.0,
        layer_held=0.5,
        way=2.0,
    )
    best, bound = bound_of(problem, stages, low=2.0)
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_how_many_all_batches_are_follows_from_the_fewest_rows(stages):
    """Faster plans would have more in flight than a worker has room for; whoever reads is no faster."""
    problem = make_problem(
        [[1.0, 0.0], [0.0, 0.5]],
        cap=[1, 9],
        allowed=[(True, False), (False, True)],
        flows=[Flow(0, 1, "a", 0.01)],
        memory_cap=1.0,
        layer_held=0.5,
        way=2.0,
    )
    best, bound = bound_of(problem, stages, low=2.0, goal=MinCost(1.0, 1.6))
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


def with_many_in_flight(read_s, flight, holds, held):
    """Whoever reads has room for any number of batches, ``held`` or more, the stage behind for so many in a worker."""
    return make_problem(
        [[read_s, 0.0], [0.0, 0.1]],
        price=[2.0, 1.0],
        allowed=[(True, False), (False, True)],
        flows=[Flow(0, 1, "a", 0.0)],
        memory_cap=1.0,
        layer_held=[(0.0, 0.0), (0.0, 1 / (holds + 0.5))],
        held=held,
        way=flight,
    )


@pytest.mark.parametrize(
    ("read_s", "flight", "holds", "held", "price", "closer"),
    [
        (0.5, 48.0, 40, 1, 2 * 1 + 2, ANCHORED),
        (0.5, 30.0, 31, 1, 2 * 1 + 1, ANCHORED),
        (1.9, 45.0, 16, 1, 2 * 2 + 4, LANES),
        (3.9, 4.0, 3, 2, 2 * 4 + 4, LANES),
    ],
    ids=["a worker has many", "a lane has many", "lanes have not many more", "lanes have no fewer"],
)
@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_batches_of_workers_and_lanes(stages, read_s, flight, holds, held, price, closer, monkeypatch):
    """More than are told apart, more by lanes of whole batches, more than are counted."""
    monkeypatch.setattr(lane_plans, "MOST_DEPTH", 2 * MOST_HELD)
    best, bound = bound_of(with_many_in_flight(read_s, flight, holds, held), stages, low=flight)
    assert best == price
    assert bound <= best * (1 + 1e-6)
    assert bound == pytest.approx(best, rel=1e-4) or stages.items() < closer.items()


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_a_layer_for_which_a_type_has_no_room_is_on_another(stages):
    """No number of batches fits beside it there, so none can be chosen."""
    problem = make_problem(
        [[0.2, 0.2], [0.2, 0.2]],
        allowed=[(True, False), (True, True)],
        flows=[Flow(0, 1, "a", 0.01)],
        memory_cap=1.0,
        layer_held=[(0.1, 0.1), (0.1, 5.0)],
        way=2.0,
    )
    best, bound = bound_of(problem, stages, low=2.0)
    assert best == 1.0
    assert bound == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_who_reads_is_on_a_type_that_has_room_for_a_batch(stages):
    problem = make_problem([[0.2, 0.2]] * 2, flows=[Flow(0, 1, "a", 0.01)], memory_cap=[1.0, 0.05], layer_held=0.1)
    best, bound = bound_of(replace(problem, way=2.0), stages, low=2.0)
    assert best == 1.0
    assert bound == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_batches_that_are_not_chosen_need_not_fit(stages):
    """Three of the larger Layer alone would, of both Layers two."""
    problem = make_problem(
        [[0.2, 0.0], [0.0, 0.4], [0.0, 0.4]],
        allowed=[(True, False), (False, True), (False, True)],
        flows=[Flow(0, 1, "a", 0.01), Flow(1, 2, "b", 0.01)],
        memory_cap=1.0,
        layer_held=[(0.0, 0.0), (0.0, 0.3), (0.0, 0.15)],
        way=1.0,
    )
    best, bound = bound_of(problem, stages)
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_of_equal_branches_each_knows_its_own_way_only(stages):
    """One is on the type where it takes longer, as the other has no room for both: all that it adds is its own."""
    problem = make_problem(
        [[0.01, 0.0], [0.8, 0.8], [0.8, 0.8], [0.0, 0.01]],
        allowed=[(True, False), (True, True), (True, True), (False, True)],
        cap=[1, 4],
        flows=[Flow(0, 1, "a", 0.0), Flow(0, 2, "b", 0.0), Flow(1, 3, "c", 0.0), Flow(2, 3, "d", 0.0)],
        memory_cap=1.0,
        layer_held=[(0.0, 0.0), (0.0, 1 / 3.2), (0.0, 1 / 3.2), (0.0, 0.0)],
        layer_way=[(0.0, 0.0), (0.5, 1.0), (0.5, 1.0), (0.0, 0.0)],
        way=1.0,
    )
    best, bound = bound_of(problem, stages, low=2.0, goal=FixedRate(1.2))
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_equal_branches_that_do_not_fit_together_are_stages_of_their_own(stages):
    """What one takes in any case does not take room from the other."""
    problem = make_problem(
        [[0.2, 0.0], [0.0, 0.2], [0.0, 0.2], [0.0, 0.01]],
        allowed=[(True, False), (False, True), (False, True), (False, True)],
        flows=[Flow(0, 1, "a", 0.0), Flow(0, 2, "b", 0.0), Flow(1, 3, "c", 0.0), Flow(2, 3, "d", 0.0)],
        memory=[(0.0, 0.0), (0.0, 0.6), (0.0, 0.6), (0.0, 0.0)],
        memory_cap=1.0,
        layer_held=[(0.0, 0.0), (0.0, 0.1), (0.0, 0.1), (0.0, 0.0)],
        way=1.0,
    )
    best, bound = bound_of(problem, stages)
    assert best == 3.0
    assert 2.0 * (1 - 1e-4) <= bound <= 3.0 * (1 + 1e-6)


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_of_equal_layers_that_read_one_may_be_on_either_type(stages):
    """There is no stage that all batches come from, then."""
    problem = make_problem(
        [[0.9, 0.9], [0.9, 0.9], [0.01, 0.01]],
        cap=1,
        flows=[Flow(0, 2, "a", 0.01), Flow(1, 2, "b", 0.01)],
        memory_cap=1.0,
        layer_held=0.01,
        way=1.0,
    )
    best, bound = bound_of(problem, stages)
    assert best == 2.0
    assert bound == pytest.approx(2.0, rel=1e-4)


def test_a_layer_behind_others_takes_a_unit_though_it_does_next_to_nothing():
    """It is on the type that reads, but others lie between."""
    problem = make_problem(
        [[0.5, 0.0], [0.0, 0.5], [1e-9, 0.0]],
        allowed=[(True, False), (False, True), (True, False)],
        flows=[Flow(0, 1, "a", 0.0), Flow(1, 2, "b", 0.0)],
        memory_cap=1.0,
        layer_held=[(0.1, 0.0), (0.0, 0.1), (0.0, 0.0)],
        way=1.0,
    )
    assert bound_of(problem, LANES) == (3.0, pytest.approx(3.0, rel=1e-4))


def test_no_stage_reads_without_the_first_layer():
    """Six are counted, four lanes have eight; a stage of another type, which might read, does not add two to four."""
    problem = make_problem(
        [[3.9, 99.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1]],
        allowed=[(True, True, False), (False, True, False), (False, False, True)],
        flows=[Flow(0, 1, "a", 0.0), Flow(1, 2, "b", 0.0)],
        memory_cap=1.0,
        layer_held=[(0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1 / 4.5)],
        way=6.0,
    )
    best, bound = bound_of(problem, LANES, low=6.0)
    assert (best, bound) == (8.0, pytest.approx(8.0, rel=1e-4))


@pytest.mark.parametrize("stages", [ANCHORED, LANES])
def test_what_is_on_another_type_does_no_work_in_a_stage(stages):
    """Two Layers of a type do not fit a worker, and take two units each; a third is elsewhere, or with the second."""
    none = (0.0, 0.0)
    problem = make_problem(
        [[0.1, 0.0], [0.0, 1.2], [0.0, 1.1], [0.01, 0.5]],
        allowed=[(True, False), (False, True), (False, True), (True, True)],
        flows=[Flow(v, v + 1, f"t{v}", 0.0) for v in range(3)],
        memory=[none, (0.0, 0.2), (0.0, 0.9), none],
        memory_cap=1.0,
        layer_held=[none, (0.0, 0.1), none, none],
        way=1.0,
    )
    best, bound = bound_of(problem, stages)
    assert (best, bound) == (5.0, pytest.approx(5.0, rel=1e-4))


@pytest.mark.parametrize(
    ("more", "low", "price"),
    [({"cut_way": 3.0}, 4.0, 1 + 1 + 7), ({"send_s": 1.5}, 1.0, 2 + 2 + 1), ({"receive_s": 1.5}, 1.0, 1 + 2 + 2)],
    ids=["a message twice", "who sends it on", "who receives it"],
)
def test_a_tensor_passes_the_stage_between(more, low, price):
    """The second Layer and the third do not fit a worker together; what it needs of the first passes two cuts."""
    none = (0.0, 0.0)
    problem = make_problem(
        [[0.1, 0.0], [0.0, 0.1], [0.0, 0.1]],
        allowed=[(True, False), (False, True), (False, True)],
        flows=[Flow(0, 1, "a", 0.0), Flow(1, 2, "b", 0.0), Flow(0, 2, "c", 1.0)],
        memory=[none, (0.0, 0.6), (0.0, 0.7)],
        memory_cap=1.0,
        layer_held=[none, none, (0.0, 0.13)],
        way=1.0,
        **more,
    )
    assert bound_of(problem, LANES, low) == (price, pytest.approx(price, rel=1e-4))


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
@pytest.mark.parametrize("per_row", [0.0, 2.0])
def test_what_costs_no_more_than_may_be_paid_is_not_left_out(stages, per_row):
    """At one row a second there are solutions for 2, and so no more than may be paid; none for a little less."""
    made = make_problem([[0.5, 0.0], [0.0, 0.5]], allowed=[(True, False), (False, True)], flows=[Flow(0, 1, "a", 0.01)])
    program = TypeProgram(replace(made, memory_cap=np.ones(2), way=1.0, way_from=1.0, way_to=2.0), **stages)
    least = 2.0 - per_row
    assert program.least_beyond(per_row, 1.0, 1.0, NEVER, least)[0] == pytest.approx(least, abs=1e-4)
    assert program.least_beyond(per_row, 1.0, 1.0, NEVER, least - 1e-3)[0] == np.inf


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_a_worker_need_not_have_room_for_more_than_it_holds(stages):
    problem = make_problem([[0.5], [0.4]], flows=[Flow(0, 1, "a", 0.0)], memory_cap=1.0, layer_held=0.4, way=1.0)
    assert bound_of(problem, stages) == (1.0, pytest.approx(1.0, rel=1e-4))


@pytest.mark.parametrize("stages", [ANCHORED, LANES])
def test_a_message_between_stages_of_a_type_takes_its_time(stages):
    """The second Layer and the third do not fit a worker together: what crosses between them is longer on its way."""
    none = (0.0, 0.0)
    problem = make_problem(
        [[0.1, 0.0], [0.0, 0.1], [0.0, 0.1]],
        allowed=[(True, False), (False, True), (False, True)],
        flows=[Flow(0, 1, "a", 0.0), Flow(1, 2, "b", 1.0)],
        memory=[none, (0.0, 0.6), (0.0, 0.7)],
        memory_cap=1.0,
        layer_held=[none, none, (0.0, 0.13)],
        cut_way=3.0,
        way=1.0,
    )
    assert bound_of(problem, stages, low=2.4) == (6.0, pytest.approx(6.0, rel=1e-4))


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_a_worker_has_room_for_the_least_it_holds(stages):
    """Of both Layers it has room for one batch, and must hold two."""
    problem = make_problem(
        [[0.1], [0.1]], flows=[Flow(0, 1, "a", 0.0)], memory_cap=1.0, layer_held=0.3, held=2, way=1.0
    )
    assert bound_of(problem, stages) == (2.0, pytest.approx(2.0, rel=1e-4))


@pytest.mark.parametrize("stages", [BARE, ANCHORED, LANES])
def test_a_shard_host_may_be_busy_all_the_time(stages):
    shards = Shards(1.0, 1, 1.0, -1)
    problem = make_problem([[0.1]], memory_cap=1.0, layer_held=0.1, way=1.0, shards=shards)
    assert bound_of(problem, stages) == (2.0, pytest.approx(2.0, rel=1e-4))
