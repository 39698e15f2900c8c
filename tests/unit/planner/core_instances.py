"""Problems with branches behind the first Layer, and every plan of theirs in lanes of whole batches."""

import itertools
import random

import numpy as np

from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Flow, Shards
from tests.unit.planner.lane_plans import LanePlans

CPU, BOTH, GPU = (True, False), (True, True), (False, True)


def branching(seed):
    """A Layer that reads, branches of one or two Layers that end in one of one to three others, which are linked.

    Branches are pulled on the type that reads, as tables are, or anywhere; ends are wherever they may be.
    """
    rng = random.Random(seed)
    tail, lengths = rng.randint(1, 3), [rng.randint(1, 2) for _ in range(rng.randint(1, 2))]
    layers = 1 + sum(lengths) + tail
    ends, places = range(layers - tail, layers), [CPU]
    edges, v = [], 1
    for length in lengths:
        chain = [*range(v, v + length)]
        edges += itertools.pairwise([0, *chain, rng.choice(ends)])
        places += [rng.choice((CPU, CPU, BOTH)), *[rng.choice((BOTH, BOTH, GPU))] * (length - 1)]
        v += length
    for end in ends:
        places.append(rng.choice((BOTH, BOTH, GPU)))
        edges.append((rng.choice([0, *range(layers - tail, end)]), end))
    edges = sorted(set(edges))
    one = rng.random() < 0.3  # tensor for all readers of a Layer
    sizes = {a: (rng.choice((0.0, 0.5, 1.0, 3.0)), rng.choice((0.0, 1.0))) for a, _ in edges}

    def grid(*choices):
        return [[rng.choice((0.0, *choices)) for _ in range(2)] for _ in range(layers)]

    return make_problem(
        np.maximum(np.array([grid(0.2, 0.5, 1.0), grid(0.3), grid(0.3)]), 0.01),
        rng.choice((1.0, 1.0, 0.95)),
        [1.0, 2.0],
        cap=9,
        allowed=places,
        flows=[Flow(a, b, f"t{a}" if one else f"t{a} {b}", *sizes[a]) for a, b in edges],
        receive_s=[[rng.choice((0.0, 0.1, 0.3)) for _ in range(2)] for _ in range(3)],
        send_s=[[rng.choice((0.0, 0.1, 0.3)) for _ in range(2)] for _ in range(3)],
        gradients=[rng.choice((0.0, 0.5)) for _ in range(layers)],
        memory=grid(0.3, 0.6),
        memory_cap=[rng.choice((6.0, 9.0)), rng.choice((4.0, 6.0))],
        layer_held=grid(0.3, 0.6),
        cut_memory=rng.choice((0.0, 0.1, 0.3)),
        held=rng.choice((1, 2)),
        layer_way=grid(0.3, 0.6),
        cut_way=[rng.choice((0.0, 0.1, 0.4)) for _ in range(2)],
        own_way=[[rng.choice((0.0, 0.1)) for _ in range(2)] for _ in range(3)],
        way=rng.choice((0.2, 1.0)),
        shards=Shards(rng.choice((0.0, 0.4)), 1, 1.0, rng.choice((-1, 0))),
        deepest=rng.choice((3.0, np.inf)),
    )


def plans_of(problem, seed, most=60):
    """Some plans: rows a second, units by type without shard hosts, batches in flight for each row a second."""
    every, rng = LanePlans(problem), random.Random(seed)
    for plan in rng.sample(every.plans, min(most, len(every.plans))):
        x = (
            rng.choice((plan.high, plan.high * rng.uniform(0.3, 1.0)))
            if np.isfinite(plan.high)
            else rng.uniform(0.2, 2)
        )
        working = [stage.units_working(x) for stage in plan.stages]
        if None in working or working[0] > plan.lanes or x <= 0:
            continue
        units = np.zeros(problem.types)
        for stage, needed, fewest in zip(plan.stages, working, plan.fewest, strict=True):
            units[stage.type] += max(needed, fewest)
        yield x, units, plan.lanes * plan.depth / x
