"""Good cuts of graphs that have too many."""

from heterps.planner.solve.dag import edges_of
from heterps.planner.solve.orders import along, good_cuts
from tests.unit.planner.solve.test_dag import random_dag


def test_an_order_is_cut_before_and_behind_each_of_its_layers():
    expected = [[False] * 3, [False, False, True], [True, False, True], [True] * 3]
    assert along([2, 0, 1]).tolist() == expected


def test_good_cuts_are_legal_and_go_from_nothing_to_all():
    for seed in range(20):
        problem = random_dag(seed, 7, 3)
        states = good_cuts(problem, 40).members
        assert not states[0].any()
        assert states[-1].all()
        assert all(state[a] or not state[b] for state in states for a, b in edges_of(problem))
        assert len({tuple(state) for state in states.tolist()}) == len(states)
