"""Whoever is told less has no better plan: what is proved holds against pins, single batch sizes and fewer machines.

Nothing of the planner's own is compared with here but its plans: of real models, on machines of the catalogue.
"""

import random
from dataclasses import replace

import pytest

from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.models import ctrdnn, deepfm, din, mmoe, wide_deep
from heterps.planner import FixedRate, MaxThroughput, MinCost, Request
from heterps.planner.planner import BATCH_SIZES, solve

MODELS = (ctrdnn, deepfm, din, mmoe, wide_deep)
CPUS, GPUS, SOLD = ("c6i-8xlarge", "c6a-8xlarge"), ("t4", "v100"), ("g4dn-xlarge", "g5-xlarge", "p3-2xlarge")
ALIKE = 1.1e-3  # batch sizes are not told apart by less


def machines(rng):
    """Texts of pools and products in TOML; the first one carries the shard hosts."""
    texts = [f'[[pool]]\nname = "cpu"\ndevice = "{rng.choice(CPUS)}"\n']
    if rng.random() < 0.5:
        texts.append(f'[[pool]]\nname = "gpu"\ndevice = "{rng.choice(GPUS)}"\nserves = false\n')
    texts += [f'[[product]]\nname = "{name}"\n' for name in rng.sample(SOLD, rng.randint(0, 2))]
    return [f"{text}cap = {rng.choice((1, 4, 16))}\n" if rng.random() < 0.6 else text for text in texts]


def restricted(rng, request, texts):
    """The same question with less to choose from."""
    pools = list(request.hardware.pools)
    for _ in range(3):
        drawn = [(rng.choice(list(request.graph.ops)), rng.choice(pools)) for _ in range(2)]
        pins = {op.name: pool.name for op, pool in drawn if not (op.kind == "input" and pool.kind == "gpu")}
        yield f"pinned {pins}", replace(request, pins=pins)  # whoever has GPUs read allows more, not less
    yield "one batch size", replace(request, batch_sizes=(rng.choice(BATCH_SIZES),))
    for i in range(1, len(texts)):
        fewer = Hardware.from_toml("\n".join(texts[:i] + texts[i + 1 :]))
        yield f"without {texts[i]}", replace(request, hardware=fewer)


def check(seed):
    rng = random.Random(f"restrictions {seed}")
    texts, x = machines(rng), rng.choice((1e3, 5e4, 5e5))
    goal = rng.choice((MinCost(x), MinCost(x), FixedRate(x), MaxThroughput(rng.choice((5.0, 40.0)))))
    request = Request(rng.choice(MODELS)(), Hardware.from_toml("\n".join(texts)), goal, BATCH_SIZES, seconds=120)
    choice = request.best()
    goal = goal if choice is None else choice.goal  # with its limits
    limit = getattr(goal, "price_per_hour", float("inf"))
    fastest = goal.fastest(choice.bound) if isinstance(goal, MinCost) and choice is not None else float("inf")
    for what, narrower in restricted(rng, request, texts):
        try:
            made = solve(narrower)
        except PlanError:
            continue
        assert choice is not None, (seed, what)
        if made.forecast.price_per_hour > limit * (1 + 1e-9) or made.forecast.rows_per_second > fastest * (1 + 1e-9):
            continue  # it had more to spend, as what was asked for costs more where less is allowed
        value, scale = made.certificate.value, 1e6 / 3600 if isinstance(goal, MinCost) else 1.0
        bound, best = choice.bound * scale, choice.draft.found.value * scale
        better, least = (max, best * (1 + ALIKE)) if goal.rises else (min, best * (1 - ALIKE))
        assert better(value, bound) == pytest.approx(bound, rel=1e-6), (seed, what)
        if choice.bound == choice.draft.found.value:
            assert better(value, least) == pytest.approx(least, rel=1e-6), (seed, what)


@pytest.mark.parametrize("seed", [1, 3, 4, 5])
def test_less_to_choose_from_is_never_better(seed):
    check(seed)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(6, 106, 10))
def test_less_to_choose_from_is_never_better_in_many_cases(part):
    for seed in range(part, part + 10):
        check(seed)
