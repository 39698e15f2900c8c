"""Instances for the rules of stages: Layers that have their places, with a band of batches in flight, and bounds.

Layers have their places, so a few plans are all there are, and what a rule counts is what decides between them.
"""

import itertools
import random
from dataclasses import replace

import numpy as np

from heterps.planner import FixedRate, MinCost
from heterps.planner.solve.effort import NEVER
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Flow, Shards
from heterps.planner.solve.type_program import TypeProgram
from tests.unit.planner.lane_plans import LanePlans

BARE, ANCHORED, LANES = {}, {"anchored": True}, {"anchored": True, "lanes": True}
BANDS = (1.0, 1.15), (1.15, 1.15), (1.4, 1.3), (2.0, 1.5)  # from what part of the fewest in flight, and how wide
GOALS = FixedRate(1.0), FixedRate(1.9), MinCost(1.0, 1.6)
DEARER = 1.05  # than the best is what is to be beaten: a bound is tried that is nearly as much, and must not hold


def drawn(rng, *choices):
    """One of a few figures, often nothing: rules that count little are told from those that count nothing."""
    return rng.choice((0.0, *choices))


def placed(seed):
    """A problem of three to five Layers: the first reads on type 0; others are on one type or the other, few on both.

    A stage that others lie before and after, the largest on the type that does not read, equal branches: all of these
    are drawn.
    """
    rng = random.Random(seed)
    layers, types = rng.randint(3, 5), 2
    places = [(True, False), *(rng.choice([(True, False), (False, True), (True, True)]) for _ in range(layers - 1))]
    places[-1] = (rng.random() < 0.3, True)
    shape = rng.choice(("chain", "branches", "skips"))
    ends = [(v - 1, v) for v in range(1, layers)]
    if shape == "branches":
        places[1:-1] = [places[1]] * (layers - 2)
        ends = [(0, v) for v in range(1, layers - 1)] + [(v, layers - 1) for v in range(1, layers - 1)]
    if shape == "skips":
        ends += [pair for pair in itertools.combinations(range(layers), 2) if pair not in ends and rng.random() < 0.3]
    one = rng.random() < 0.5  # tensor for all readers of a Layer
    size = {v: (drawn(rng, 1.0, 3.0), drawn(rng, 1.0)) for v in range(layers)}
    flows = [Flow(a, b, f"t{a}" if one else f"t{a} {b}", *size[a]) for a, b in ends]
    like = (lambda row: [row[0], *[row[1]] * (layers - 2), row[-1]]) if shape == "branches" else (lambda row: row)

    def grid(*choices):
        return like([[drawn(rng, *choices) for _ in range(types)] for _ in range(layers)])

    if shape == "branches" and not one:
        flows = [replace(flow, bytes=2.0, back=1.0) for flow in flows]
    seconds = [grid(0.2, 0.5, 1.0), grid(0.3), grid(0.3)]
    return make_problem(
        np.maximum(np.array(seconds), 0.01),
        1.0,
        [rng.choice((1.0, 2.0)), rng.choice((1.0, 3.0))],
        cap=rng.choice((6, 12)),
        allowed=places,
        flows=flows,
        receive_s=[[drawn(rng, 0.1, 0.3) for _ in range(types)] for _ in range(3)],
        send_s=[[drawn(rng, 0.1, 0.3) for _ in range(types)] for _ in range(3)],
        gradients=like([drawn(rng, 0.5, 2.0) for _ in range(layers)]),
        memory=grid(0.5, 1.0),
        memory_cap=[rng.choice((6.0, 9.0)), rng.choice((4.0, 6.0))],
        layer_held=grid(0.5, 1.0),
        cut_memory=drawn(rng, 0.3, 0.6),
        held=rng.choice((1, 2)),
        layer_way=grid(0.5, 1.0),
        cut_way=[drawn(rng, 0.2, 0.6) for _ in range(types)],
        own_way=[[drawn(rng, 0.1, 0.2) for _ in range(types)] for _ in range(3)],
        way=rng.choice((0.2, 1.0)),
        shards=Shards(drawn(rng, 0.2, 0.6), 1, 1.0, rng.choice((-1, 0))),
        deepest=rng.choice((3.0, np.inf)),
    )


def looked_at(seed, band, goal):
    """A problem with its band of batches in flight, and the best plan there; None if there is none."""
    problem, (part, wide) = placed(seed), BANDS[band]
    low = part * problem.least_way
    best = LanePlans(problem, low, wide * low).best(GOALS[goal])
    return replace(problem, way_from=low, way_to=wide * low), best


def bounded(problem, goal, best, stages):
    return goal.closer(TypeProgram(problem, **stages), DEARER * best, 0.0, NEVER)


def bound_of(problem, stages, low=1.0, goal=GOALS[0]):
    """The best plan with few batches in flight for each row a second, and what the program says of all of them."""
    problem = replace(problem, way_from=low, way_to=2 * low)
    best = LanePlans(problem, low, 2 * low).best(goal)
    return best, bounded(problem, goal, best, stages)
