"""Planning problems that are seldom met: nothing of something, figures that meet exactly, unlike sizes, odd graphs.

Each is one of :mod:`tests.unit.planner.instances`, changed in one of these ways.
"""

import itertools
import math
import random

from tests.unit.planner.brute import BrutePlans
from tests.unit.planner.instances import instance, problem_of

ODD = 5  # one of so many seeds
_FASTEST, _DEAREST = 8.0, 60.0  # rows a second and prices an hour that goals are moved to
_BY_LAYER = ("allowed", "memory", "layer_held", "layer_way", "gradients", "to_hosts", "from_hosts")
_BY_RESOURCE = ("seconds", "fraction", "usage")


def drawn(seed, most_layers=5):
    """An instance, every now and then an odd one, of few Layers: graphs without edges have many plans."""
    return instance(seed, most_layers) if seed % ODD else odd_instance(seed, min(most_layers, 4))


def odd_instance(seed, most_layers=5):
    """An instance that is changed in one of the ways of this file."""
    rng = random.Random(f"oddity of {seed}")
    made = instance(seed, most_layers)
    return rng.choice((_with_nothing, _exact, _scaled, _unlike, _nearly, _shaped, _together, _deep))(rng, made)


def _each(change, value):
    return [_each(change, v) for v in value] if isinstance(value, (list, tuple)) else change(value)


def _change(made, change, *names):
    return made | {name: _each(change, made[name]) for name in names if name in made}


def _figures(made):
    """Layers, types, resources."""
    return len(made["allowed"]), len(made["price"]), len(made["seconds"])


def _grid(make, *shape):
    return [_grid(make, *shape[1:]) for _ in range(shape[0])] if shape else make()


def _with_nothing(rng, made):
    """Layers that take no time, tensors without bytes, units that cost nothing, or are not there; all or no scaling."""
    layers, types, resources = _figures(made)
    seldom = lambda value: 0.0 if rng.random() < 0.4 else value  # noqa: E731
    made = _change(made, seldom, *rng.sample(("memory", "layer_held", "layer_way", "usage", "price", "gradients"), 3))
    made["seconds"][1:] = _each(seldom, made["seconds"][1:])
    if made["goal"][0] != "most":  # else there would be no end to what some plans do
        made = _change(made, seldom, "seconds")
    if rng.random() < 0.5:
        made["fraction"] = _grid(lambda: rng.choice((0.0, 0.5, 1.0)), resources, layers, types)
    sizes = {flow[2]: _each(seldom, list(flow[3:])) for flow in made["flows"]}
    made["flows"] = [(*flow[:3], *sizes[flow[2]]) for flow in made["flows"]]
    if rng.random() < 0.2:
        made["allowed"][rng.randrange(layers)] = [False] * types
    return _limited(made | {"cap": [rng.choice((0, 1, 1, 2, cap)) for cap in made["cap"]]})


def _limited(made):
    """Where as much as possible is wanted, there is an end to everything."""
    return _change(made, lambda cap: min(cap, 9), "cap") if made["goal"][0] == "most" else made


def _exact(rng, made):
    """Multiples of a quarter, so that memory, capacities and rates are met exactly; a goal where prices change."""
    layers, types, resources = _figures(made)
    plain = ("receive_s", "send_s", "turn_s", "layer_held", "layer_way", "cut_way", "own_way", "gradients", "way")
    made = _change(made, lambda v: round(4 * v) / 4, *plain, "usage", "byte_usage", "turn_usage", "fixed_usage")
    made = _change(made, lambda v: max(0.25, round(4 * v) / 4), "seconds", "memory")
    made = _change(made, lambda v: v if v in (0.0, math.inf) else max(1.0, round(2 * v) / 2), "memory_cap", "capacity")
    made = _change(made, lambda v: v if v in (0.0, math.inf) else max(1.0, round(v)), "price", "link")
    made["fraction"] = (
        1.0 if rng.random() < 0.6 else _grid(lambda: rng.choice((0.5, 0.75, 1.0)), resources, layers, types)
    )
    return _at_a_step(rng, made)


def _at_a_step(rng, made):
    """Ask for just as many rows as some plan does before it needs another unit, or for what that costs."""
    plans, (kind, figure) = BrutePlans(problem_of(made)), made["goal"]
    if not plans.sequences or math.isinf(figure):
        return made
    stages, ceiling = rng.choice(plans.sequences)
    steps = [x for x in plans.steps(stages, ceiling, _FASTEST, _DEAREST) if x > 0.01]
    x = rng.choice(steps) if steps else figure
    price = plans.price(stages, ceiling, x)
    return made | {"goal": (kind, x) if kind != "most" else (kind, price or figure)}


def _scaled(rng, made):
    """Rows by the million, bytes by the gigabyte, cents: the same problem in other units."""
    rows, money, bytes_, room = (10.0 ** rng.choice(powers) for powers in ((-4, 5, 9), (-3, 0, 3), (-3, 0, 3), (0, 9)))
    per_row = ("seconds", "turn_s", "usage", "turn_usage", "fixed_usage", "layer_way", "way")
    made = _change(made, lambda v: v / rows, *per_row)
    made = _change(made, lambda v: v / rows / bytes_, "receive_s", "send_s", "byte_usage", "cut_way")
    made = _change(made, lambda v: v * bytes_, "gradients", "to_hosts", "from_hosts", "between_hosts")
    made = _change(made, lambda v: v * rows * bytes_, "link")
    made = _change(made, lambda v: v * money, "price")
    made = _change(made, lambda v: v * room, "memory", "memory_cap", "layer_held")
    made = _change(made, lambda v: v * room / bytes_, "cut_memory")
    if "own_way" in made:
        crosses, passes, turns = made["own_way"]
        made["own_way"] = [*_each(lambda v: v / rows / bytes_, [crosses, passes]), _each(lambda v: v / rows, turns)]
    if "shards" in made:
        seconds, least, price, type_ = made["shards"]
        made["shards"] = (seconds / rows, least, price * money, type_)
    made["flows"] = [(*flow[:3], *(size * bytes_ for size in flow[3:])) for flow in made["flows"]]
    kind, figure = made["goal"]
    return made | {"goal": (kind, figure * (money if kind == "most" else rows))}


def _unlike(rng, made):
    """Layers of which some take ten thousand times as long as others."""
    made = _limited(_change(made, lambda v: 10.0 ** rng.uniform(-4, 0), "seconds"))
    return _change(made, lambda v: rng.choice((v, 1.0, 1 - 1e-9)), "fraction") if rng.random() < 0.5 else made


def _nearly(rng, made):
    """All Layers equal but for one figure of one of them, which differs by next to nothing."""
    made = _alike(made)
    by = 1 + rng.choice((1e-12, 1e-9, 2e-9, 1e-7, -1e-12, -1e-9, 1e-3))
    name = rng.choice([name for name in ("memory", "layer_held", "layer_way", "gradients", "seconds") if name in made])
    rows = rng.choice(made[name]) if name == "seconds" else made[name]
    rows[-1] = _each(lambda v: v * by, rows[-1])
    return made


def _alike(made):
    """All Layers as the first."""
    layers = len(made["allowed"])
    copies = lambda rows: [list(row) if isinstance(row, list) else row for row in [rows[0]] * layers]  # noqa: E731
    made = made | {name: copies(made[name]) for name in _BY_LAYER if name in made}
    kept = {name: made[name] for name in _BY_RESOURCE if isinstance(made.get(name), list)}
    return made | {name: [copies(rows) for rows in by_resource] for name, by_resource in kept.items()}


def _shaped(rng, made):
    """Stars, two graphs in one, all with all, no edges at all; one tensor for many readers, or one for each."""
    layers, half = len(made["allowed"]), len(made["allowed"]) // 2
    ends = rng.choice(
        (
            [(0, v) for v in range(1, layers)],
            [(v, layers - 1) for v in range(layers - 1)],
            [(v, v + 1) for v in range(layers - 1) if v != half],
            list(itertools.product(range(half), range(half, layers))),
            [],
        )
    )
    one, size = rng.random() < 0.5, rng.choice(((1.0,), (2.0, 1.0), (0.0, 3.0)))
    made["flows"] = [(a, b, f"out{a}" if one else f"out{a} {b}", *size) for a, b in ends]
    return _alike(made) if rng.random() < 0.5 else made


def _together(rng, made):
    """Products, links, shard hosts, pins and few units at once."""
    layers, types, _ = _figures(made)
    made["product"] = [rng.randrange(2) for _ in range(types)]
    made["sold_in"] = [rng.choice((1, 1, 2, 3)) for _ in range(types)]
    made["cap"] = [rng.choice((2, 4, 8, 12)) for _ in range(types)]
    made["link"] = _grid(lambda: rng.choice((math.inf, rng.uniform(1, 8))), types, types)
    made["hosts_on"], made["between_hosts"] = rng.randrange(types), rng.choice((0.0, 1.0))
    made["to_hosts"], made["from_hosts"] = _grid(lambda: rng.choice((0.0, rng.uniform(0, 2))), 2, layers)
    made["shards"] = (rng.uniform(0, 0.5), rng.randint(1, 2), 1.0, rng.randrange(-1, types))
    for row in made["allowed"]:
        row[rng.randrange(types)] = True
        row[rng.randrange(types)] &= rng.random() < 0.5 or sum(row) == 1
    return made


def _deep(rng, made):
    """Little room for what is in flight, few batches for each worker that reads."""
    layers, types, _ = _figures(made)
    some = lambda most: rng.choice((0.0, rng.uniform(0, most)))  # noqa: E731
    made.setdefault("memory", _grid(lambda: rng.uniform(0, 1), layers, types))
    made.setdefault("memory_cap", [rng.uniform(1.5, 5) for _ in range(types)])
    made["layer_held"], made["held"] = _grid(lambda: some(0.3), layers, types), rng.choice((1, 2, 3))
    made["layer_way"], made["way"] = _grid(lambda: some(2), layers, types), some(3)
    made["cut_way"], made["own_way"] = _grid(lambda: some(0.5), types), _grid(lambda: some(0.3), 3, types)
    made["deepest"] = rng.choice((1, 2, 3, 5, math.inf))
    return made
