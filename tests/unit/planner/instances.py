"""Random planning problems by seed, as plain keyword arguments, and how a failing one is made smaller."""

import itertools
import math
import random
from copy import deepcopy

from heterps.planner.goals import FixedRate, MaxThroughput, MinCost
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Flow, Shards


def instance(seed, most_layers=5):
    """Return a dict of plain figures: what make_problem takes, and the goal."""
    rng = random.Random(seed)
    layers, types = rng.randint(1, most_layers), rng.choice((1, 2, 2, 3))
    chain = rng.random() < 0.3
    draw = (lambda low, high: rng.choice((0.5, 1.0, 0.25))) if rng.random() < 0.25 else rng.uniform
    grid = lambda make, *shape: _grid(make, shape)  # noqa: E731
    edges = [(v, v + 1) for v in range(layers - 1)] if chain else _edges(rng, layers)
    sizes = [rng.randrange(3) for _ in range(layers)]
    made = {
        "seconds": grid(lambda: draw(0.1, 1), 2, layers, types),
        "fraction": grid(lambda: rng.uniform(0.85, 1), 2, layers, types) if rng.random() < 0.4 else 1.0,
        "price": [rng.choice((1.0, 2.0)) if rng.random() < 0.3 else rng.uniform(1, 8) for _ in range(types)],
        "cap": [rng.choice((math.inf, 0, 2, 3, 5, 9)) if rng.random() < 0.6 else math.inf for _ in range(types)],
        "sold_in": [rng.choice((1, 1, 2, 4)) if rng.random() < 0.3 else 1 for _ in range(types)],
        "flows": [(a, b, f"out{a}", 1.0 + sizes[a]) for a, b in edges],
        "allowed": grid(lambda: True, layers, types),
    }
    if layers >= 4 and rng.random() < 0.3:
        _repeat(rng, made, layers)
    if rng.random() < 0.5:
        made["receive_s"] = made["send_s"] = grid(lambda: rng.uniform(0.01, 0.2), 2, types)
    if rng.random() < 0.3:
        made["turn_s"] = grid(lambda: rng.uniform(0.01, 0.2), 2, types)
    if rng.random() < 0.5:
        _pin(rng, made)
    if "like" in made:
        _equal(made)
    if rng.random() < 0.35:
        made["memory"] = grid(lambda: rng.uniform(0.5, 2), layers, types)
        made["memory_cap"] = [rng.uniform(1.5, 5) for _ in range(types)]
        made["cut_memory"] = rng.choice((0.0, 0.1))
    if rng.random() < 0.25:
        _share(rng, made, layers, types, grid)
    if rng.random() < 0.25:
        pairs = grid(lambda: math.inf, types, types)
        for a, b in itertools.combinations_with_replacement(range(types), 2):
            pairs[a][b] = pairs[b][a] = rng.choice((math.inf, rng.uniform(1, 8)))
        made["link"] = pairs
    if rng.random() < 0.4:
        made["shards"] = (rng.uniform(0, 0.5), rng.randint(1, 2), rng.uniform(0.5, 2), rng.randrange(-1, types))
    if "like" in made:
        _equal(made)
    _direct(random.Random(f"directions of {seed}"), made, layers, types)
    _fly(random.Random(f"flight of {seed}"), made, layers, types)
    _limit_depth(random.Random(f"depth of {seed}"), made, layers, types)
    _ask_hosts(random.Random(f"hosts of {seed}"), made, layers, types)
    made.pop("like", None)
    _bundle(random.Random(f"products of {seed}"), made, types)
    made["goal"] = _goal(rng, made)
    _give(random.Random(f"gifts of {seed}"), made, types)
    return made


def problem_of(made):
    """The Problem of an instance."""
    figures = {name: value for name, value in made.items() if name not in ("goal", "flows", "shards")}
    flows = [Flow(*flow) for flow in made["flows"]]
    shards = Shards(*made["shards"]) if "shards" in made else None
    return make_problem(flows=flows, shards=shards, **figures)


def goal_of(made):
    """The goal of an instance."""
    kind, figure = made["goal"]
    return {"cost": MinCost, "rate": FixedRate, "most": MaxThroughput}[kind](figure)


def shrunk(made, fails):
    """The smallest instance that still fails, by leaving out layers, types, edges and conditions one at a time."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(made):
            if fails(smaller):
                made, changed = smaller, True
                break
    return made


def _smaller(made):
    layers, types = len(made["allowed"]), len(made["price"])
    single = (
        "product",
        "shards",
        "link",
        "to_hosts",
        "from_hosts",
        "between_hosts",
        "turn_s",
        "receive_s",
        "send_s",
        "gradients",
        "way",
        "cut_way",
        "own_way",
        "layer_way",
        "layer_held",
        "held",
        "deepest",
    )
    for name in (*single, "capacity", "memory_cap", "cut_memory"):
        if name in made:
            gone = {"capacity": _SHARED, "memory_cap": _MEMORY}.get(name, (name,))
            yield {k: v for k, v in made.items() if k not in gone}
    for v in range(layers if layers > 1 else 0):
        yield _without_layer(made, v)
    for i in range(len(made["flows"])):
        yield made | {"flows": made["flows"][:i] + made["flows"][i + 1 :]}
    plain = {"fraction": 1.0, "sold_in": [1] * types, "cap": [math.inf] * types if made["goal"][0] != "most" else None}
    for name, value in plain.items():
        if value is not None and made[name] != value:
            yield made | {name: value}


LINKED = ("link", "to_hosts", "from_hosts", "between_hosts", "hosts_on")  # what links, or their want, make
_SHARED = ("usage", "byte_usage", "turn_usage", "fixed_usage", "capacity")
_MEMORY = ("memory", "memory_cap", "cut_memory", "layer_held", "held", "layer_way", "cut_way", "own_way", "way")
_LAYER_AXIS = {
    "layer_held": 0,
    "layer_way": 0,
    "gradients": 0,
    "to_hosts": 0,
    "from_hosts": 0,
    "seconds": 1,
    "fraction": 1,
    "allowed": 0,
    "memory": 0,
    "usage": 1,
}


def _without_layer(made, v):
    smaller = deepcopy(made)
    for name, axis in _LAYER_AXIS.items():
        if isinstance(smaller.get(name), list):
            for each in smaller[name] if axis else [smaller[name]]:
                del each[v]
    less = lambda u: u - (u > v)  # noqa: E731
    smaller["flows"] = [(less(a), less(b), n, *size) for a, b, n, *size in made["flows"] if v not in (a, b)]
    return smaller


def _direct(rng, made, layers, types):
    """Count sending and receiving apart, send gradients of another size back, pass those of parameters on."""
    if rng.random() < 0.5:
        ratio = rng.choice((0.0, 0.5, 2.0))
        made["flows"] = [(a, b, n, size, ratio * size) for a, b, n, size in made["flows"]]
    if rng.random() < 0.4:
        alike = rng.uniform(0, 0.5)
        made["gradients"] = [alike if "like" in made else rng.choice((0.0, rng.uniform(0, 1))) for _ in range(layers)]
    if rng.random() < 0.5:
        for name in ("seconds", "fraction", "turn_s"):
            if isinstance(made.get(name), list):
                made[name] = [*made[name], deepcopy(made[name][1])]
        if "receive_s" in made:
            compute, data = made["receive_s"]
            made["receive_s"] = [compute, data, [0.0] * types]
            made["send_s"] = [compute, [0.0] * types, [rng.choice((1.0, 2.0)) * s for s in data]]
    if "link" in made and rng.random() < 0.5:
        made["link"][0][-1] = rng.choice((math.inf, rng.uniform(1, 8)))


def _ask_hosts(rng, made, layers, types):
    """Let Layers send to shard hosts, and get from them, over links."""
    if "link" in made and rng.random() < 0.6:
        made["hosts_on"], made["between_hosts"] = rng.randrange(types), rng.choice((0.0, rng.uniform(0, 2)))
        for name in ("to_hosts", "from_hosts"):
            made[name] = [rng.choice((0.0, rng.uniform(0, 2))) for _ in range(layers)]
            for v, first in made.get("like", ()):
                made[name][v] = made[name][first]


def _give(rng, made, types):
    """Let one type, or all, cost nothing, as machines of one's own do, of which there are so many."""
    if rng.random() < 0.1:
        for t in range(types) if rng.random() < 0.2 else [rng.randrange(types)]:
            made["price"][t] = 0.0
            made["cap"][t] = min(made["cap"][t], 9)


def _fly(rng, made, layers, types):
    """Let batches be in flight for which workers need room."""
    if "memory" in made and rng.random() < 0.7:
        made["layer_held"] = _grid(lambda: rng.choice((0.0, rng.uniform(0, 0.3))), (layers, types))
        made["held"] = rng.choice((1, 2))
        made["layer_way"] = _grid(lambda: rng.uniform(0, 2), (layers, types))
        made["cut_way"] = [rng.choice((0.0, rng.uniform(0, 0.5))) for _ in range(types)]
        made["way"] = rng.choice((0.0, rng.uniform(0, 3)))
        made["own_way"] = _grid(lambda: rng.choice((0.0, rng.uniform(0, 0.3))), (3, types))
        for v, first in made.get("like", ()):
            made["layer_held"][v], made["layer_way"][v] = (
                list(made["layer_held"][first]),
                list(made["layer_way"][first]),
            )


def _limit_depth(rng, made, layers, types):
    """Let workers that read have few batches in flight, whatever their memory."""
    if rng.random() < 0.2:
        made["deepest"] = rng.choice((2, 3, 5))
        made.setdefault("way", rng.choice((0.0, rng.uniform(0, 3))))
        made.setdefault("layer_way", _grid(lambda: rng.uniform(0, 3), (layers, types)))
        for v, first in made.get("like", ()):
            made["layer_way"][v] = list(made["layer_way"][first])


def _bundle(rng, made, types):
    """Sell units of several types as one product."""
    if types > 1 and rng.random() < 0.3:
        made["product"] = rng.choice(([0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]))[:types]
        made["sold_in"] = [rng.choice((1, 1, 2, 3, 4)) for _ in range(types)]


def _grid(make, shape):
    return [_grid(make, shape[1:]) for _ in range(shape[0])] if shape else make()


def _edges(rng, layers):
    density = rng.choice((0.3, 0.5, 0.8))
    return [pair for pair in itertools.combinations(range(layers), 2) if rng.random() < density]


def _pin(rng, made):
    for row in made["allowed"]:
        if rng.random() < 0.6:
            row[:] = [t == rng.randrange(len(row)) for t in range(len(row))]
        if not any(row):
            row[rng.randrange(len(row))] = True


def _repeat(rng, made, layers):
    """Make branches of one or two Layers between the first Layer and the last, all alike."""
    length = 2 if layers >= 6 and rng.random() < 0.7 else 1
    heads = range(1, layers - length, length)
    made["like"] = [(head + k, 1 + k) for head in heads for k in range(length)]
    last, shared = layers - 1, rng.random() < 0.5
    inner = [(head + k, head + k + 1, f"out{head + k}", 1.0) for head in heads for k in range(length - 1)]
    enter = [(0, head, "in" if shared else f"in{head}", 2.0) for head in heads]
    leave = [(head + length - 1, last, f"out{head + length - 1}", 1.0) for head in heads]
    loose = [(0, v, "rest", 1.0) for v in range(heads[-1] + length, last)]
    made["flows"] = enter + inner + leave + loose


def _equal(made):
    """Give Layers that are to be alike the figures of the first of them."""
    for name in ("seconds", "fraction", "usage"):
        for each in made[name] if isinstance(made.get(name), list) else ():
            for v, first in made["like"]:
                each[v] = list(each[first])
    for name in ("allowed", "memory"):
        for v, first in made["like"] if name in made else ():
            made[name][v] = list(made[name][first])


def _share(rng, made, layers, types, grid):
    made["usage"] = grid(lambda: rng.uniform(0.1, 1), 1, layers, types)
    made["byte_usage"] = grid(lambda: rng.choice((0.0, 0.1)), 1, types)
    made["turn_usage"] = grid(lambda: rng.choice((0.0, 0.1)), 1, types)
    made["fixed_usage"] = [rng.choice((0.0, 0.2))]
    made["capacity"] = [rng.uniform(2, 20)]


def _goal(rng, made):
    kind = rng.choice(("cost", "rate", "most", "budget"))
    if kind in ("cost", "rate"):
        return kind, rng.uniform(0.1, 3)
    if kind == "most" and all(map(math.isfinite, made["cap"])):
        return "most", math.inf
    return "most", rng.uniform(5, 60)
