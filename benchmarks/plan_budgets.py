"""Budgets and caps: how much of the certificate stays open, how long that takes, and whether more ever brings less.

python -m benchmarks.plan_budgets [--kind budgets|hosts|jobs] [--seeds 0..20] [--known] [--seconds 30] [--over 0.02]

Each seed draws a model, machines (some rented whole, some pools with caps, a link now and then) and options, and plans
them for the most rows per second on a ladder: with more and more money, or with more and more machines. What a lower
rung reaches a higher one reaches too, whatever the planner says of either: a value that is worse is a plan that was
missed, a bound that a lower rung beats is a false certificate, and stops. ``hosts`` are pools that share a machine,
with more and more cores, units or memory bandwidth; ``jobs`` are rows within more and more time, or on more and more
machines, for the least money: faster plans are taken where they save a twentieth, so a job with more time may cost
that much more, and a bound holds up to the rows a second that it names. With ``--known`` the cases that were open.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.plan_scale import PRODUCTS, THREE
from heterps.errors import PlanError
from heterps.graph import Graph
from heterps.hardware import Hardware
from heterps.models import ctrdnn, dcn_v2, deepfm, din, dlrm, matchnet, mmoe, nce, two_emb, wide_deep
from heterps.planner import Goal, MaxThroughput, MinCost
from heterps.planner.planner import BATCH_SIZES, Request, solve

MODELS: dict[str, Callable[[], Graph]] = {
    **{f"CTRDNN {n}": (lambda n=n: ctrdnn(hidden=(256,) * (n - 4))) for n in (8, 12, 16, 20)},
    "CTRDNN": ctrdnn,
    "Wide & Deep": wide_deep,
    "DCN": dcn_v2,
    "DeepFM": deepfm,
    "DIN": din,
    "DLRM": dlrm,
    "MATCHNET": matchnet,
    "MMoE": mmoe,
    "NCE": nce,
    "2EMB": two_emb,
}
CPUS, GPUS = ("c6i-8xlarge", "m6i-8xlarge", "c6a-8xlarge"), ("l4", "t4", "a10g", "v100")
SOLD = ("g4dn-xlarge", "g5-xlarge", "g6-xlarge", "p3-2xlarge", "p4d-24xlarge")
CAPS = (1, 2, 4, 8, 16, 40, 64)
G5 = THREE.replace("g4dn-xlarge", "g5-xlarge")
ONE_FAST = '[[pool]]\nname = "cpu"\ndevice = "c6a-8xlarge"\ncap = 1\n\n[[product]]\nname = "p3-2xlarge"\n'
CLOSE = 1.0e-3  # relative: values that batch sizes are not told apart by
HURRIED = 0.051  # relative: what a faster plan of a job must save


@dataclass(frozen=True)
class Ladder:
    """A model on machines, with more and more of something: a request for each rung, named."""

    name: str
    rungs: tuple[tuple[str, str, Goal], ...]  # what it is called, hardware, goal
    model: str
    options: dict[str, Any] = field(default_factory=dict)

    def requests(self, seconds: float) -> Iterator[tuple[str, Request]]:
        """What is planned, rung by rung."""
        graph, options = MODELS[self.model](), {"batch_sizes": BATCH_SIZES, **self.options}
        for name, hardware, goal in self.rungs:
            yield name, Request(graph, Hardware.from_toml(hardware), goal, seconds=seconds, **options)


def pool(name: str, device: str, cap: int | None, **more: str) -> str:
    """A pool in TOML."""
    limit = "" if cap is None else f"cap = {cap}\n"
    return f'[[pool]]\nname = "{name}"\ndevice = "{device}"\n{limit}' + "".join(f"{k} = {v}\n" for k, v in more.items())


def product(name: str, cap: int | None) -> str:
    """A machine of the catalogue in TOML."""
    return f'[[product]]\nname = "{name}"\n' + ("" if cap is None else f"cap = {cap}\n")


def machines(rng: random.Random) -> list[tuple[str, int | None]]:
    """What is drawn of machines: texts with a place for the cap, and the cap."""
    drawn = [("cpu", pool("cpu", rng.choice(CPUS), None))]
    if rng.random() < 0.5:
        drawn.append(("gpu", pool("gpu", rng.choice(GPUS), None, serves="false")))
    drawn += [(name, product(name, None)) for name in rng.sample(SOLD, rng.randint(0, 3))]
    return [(text, rng.choice((None, *CAPS)) if rng.random() < 0.7 else None) for _, text in drawn]


def capped(text: str, cap: int | None) -> str:
    """A pool or product with its cap."""
    return text if cap is None else text + f"cap = {cap}\n"


def drawn(seed: int) -> Ladder:
    """Draw a ladder."""
    rng = random.Random(f"budgets {seed}")
    model, parts = rng.choice(list(MODELS)), machines(rng)
    options = drawn_options(rng)
    link = '[[link]]\nsource = "cpu"\ntarget = "cpu"\nbytes_per_s = 5e9\n' if rng.random() < 0.15 else ""
    hardware = "\n".join([*(capped(*part) for part in parts), link])
    name = f"{seed}: {model}, {', '.join(_short(part) for part in parts)}{', a link' if link else ''}"
    name += "".join(f", {key} {value}" for key, value in options.items())
    if rng.random() < 0.6:
        start = rng.choice((3.0, 12.0, 40.0, 120.0))
        budgets = [round(start * step, 2) for step in (1, 1.4, 3, 8)]
        return Ladder(name, tuple((f"{b:g} an hour", hardware, MaxThroughput(b)) for b in budgets), model, options)
    budget, more = rng.choice((20.0, 60.0, 200.0, 478.0)), rng.randrange(len(parts))
    rungs = []
    for cap in (1, 4, 16, 64):
        texts = [capped(text, cap if i == more else at) for i, (text, at) in enumerate(parts)]
        rungs.append((f"{budget:g}, cap {cap} of {more}", "\n".join([*texts, link]), MaxThroughput(budget)))
    return Ladder(name, tuple(rungs), model, options)


def drawn_options(rng: random.Random) -> dict[str, Any]:
    """Draw what else is asked for."""
    options: dict[str, Any] = {}
    if rng.random() < 0.2:
        options["head_room"] = 0.2
    if rng.random() < 0.2:
        options["replicas"] = 2
    if rng.random() < 0.3:
        options["batch_sizes"] = rng.choice(((4096,), (256, 512, 1024, 2048, 4096, 8192), (16384, 32768)))
    return options


def on_hosts(seed: int) -> Ladder:
    """Draw pools that share machines, of which there is more and more, beside some that can be rented."""
    rng = random.Random(f"hosts {seed}")
    model, options = rng.choice(list(MODELS)), drawn_options(rng)
    cores, units, gpus = rng.choice((16, 48, 128)), rng.choice((2, 8)), rng.choice((0, 1, 4))
    budget, grows = rng.choice((20.0, 100.0)), rng.choice(("cores", "units", "bytes"))
    rented = [part for part in machines(rng) if part[0].startswith("[[product]]")]
    cpu, gpu = rng.choice(CPUS), rng.choice(GPUS)
    rungs = []
    for times in (1, 2, 4):
        more = {"cores": 1, "units": 1, "bytes": 1} | {grows: times}
        host = f'[[host]]\nname = "rack"\ncores = {cores * more["cores"]}\nmemory_bytes = 5e11\n'
        host += f"memory_bytes_per_s = {4e10 * more['bytes']:g}\n"
        text = host + pool("cpu", cpu, units * more["units"], host='"rack"')
        if gpus:
            text += pool("gpu", gpu, gpus * more["units"], host='"rack"', serves="false")
        every = "\n".join([text, *(capped(*part) for part in rented)])
        rungs.append((f"{grows} x{times}, {budget:g}", every, MaxThroughput(budget)))
    name = f"{seed}: {model} on {cores} cores, {units} {cpu}, {gpus} {gpu}, {', '.join(map(_short, rented))}, {options}"
    return Ladder(name, tuple(rungs), model, options)


def jobs(seed: int) -> Ladder:
    """Draw rows and the time for them, which grows, or more and more machines for them."""
    rng = random.Random(f"jobs {seed}")
    model, parts, options = rng.choice(list(MODELS)), machines(rng), drawn_options(rng)
    rows, hours = 10 ** rng.uniform(7, 11), rng.choice((0.5, 2.0, 6.0))
    more = None if rng.random() < 0.6 else rng.randrange(len(parts))
    rungs = []
    for times, cap in ((1.0, 4), (1.5, 8), (3.0, 32), (8.0, 128)):
        texts = [capped(text, cap if i == more else at) for i, (text, at) in enumerate(parts)]
        time_s = 3600 * hours * (times if more is None else 1.0)
        rungs.append((f"{time_s / 3600:g} h, cap {cap}", "\n".join(texts), MinCost.of_job(rows, time_s)))
    name = f"{seed}: {model}, {rows:.3g} rows, {', '.join(map(_short, parts))}, {options}"
    return Ladder(name, tuple(rungs), model, options)


def _short(part: tuple[str, int | None]) -> str:
    text, cap = part
    named = text.split('"')
    return f"{named[3] if len(named) > 3 else named[1]}{'' if cap is None else f' x{cap}'}"


def known() -> list[Ladder]:
    """Cases that were open, and those of plan_scale."""
    budgets = lambda text, *prices: tuple((f"{b:g} an hour", text, MaxThroughput(b)) for b in prices)  # noqa: E731
    capped_at = lambda text, budget, *caps: tuple(  # noqa: E731
        (f"{budget:g}, caps {cap}", text.replace("cap = 16", f"cap = {cap}"), MaxThroughput(budget)) for cap in caps
    )
    return [
        Ladder("CTRDNN 20 with g5", budgets(G5, 10, 20, 30, 40, 60), "CTRDNN 20"),
        Ladder("CTRDNN 20, caps of products", capped_at(G5, 478, 8, 16, 32, 64), "CTRDNN 20"),
        Ladder("CTRDNN 20, caps, g4dn", capped_at(THREE, 478, 8, 16, 32, 64), "CTRDNN 20"),
        Ladder("CTRDNN 8, caps, g4dn", capped_at(THREE, 478, 8, 16, 32, 64), "CTRDNN"),
        Ladder("two products", budgets(PRODUCTS, 3, 10, 40, 200), "CTRDNN 20"),
        Ladder("one c6a and p3", budgets(ONE_FAST, 120, 168, 320, 360), "CTRDNN 20"),
    ]


KINDS: dict[str, Callable[[int], Ladder]] = {"budgets": drawn, "hosts": on_hosts, "jobs": jobs}


@dataclass
class Rung:
    """What came out."""

    value: float
    bound: float
    seconds: float
    worked: float
    text: str
    rows_per_second: float = 0.0
    up_to: float = float("inf")  # rows per second for which the bound is sure to hold


def _inverse(price: float) -> float:
    return 1 / price if price else 0.0


def measured(request: Request) -> Rung:
    """Plan one rung."""
    began, worked = time.perf_counter(), time.process_time()
    try:
        made = solve(request)
        assert made.certificate is not None
        found, text = made.certificate, f"{made.batch_size} {made.certificate.proof}"
        value, bound, rate = found.value, found.bound, made.forecast.rows_per_second if made.forecast else 0.0
        up_to = float("inf") if request.goal.rises else rate  # what is slower and cheaper per row costs less an hour
    except PlanError as error:
        value, bound, text = 0.0, 0.0 if str(error).startswith("no feasible plan") else float("inf"), str(error)[:90]
        bound, rate, up_to = bound if request.goal.rises else _inverse(bound), 0.0, float("inf")
    took, worked = time.perf_counter() - began, time.process_time() - worked
    return Rung(value, bound, took, worked, text.replace("\n", " "), rate, up_to)


def climb(ladder: Ladder, seconds: float, over: float, slow: float) -> None:
    """Plan a ladder and print its rungs."""
    print(ladder.name, flush=True)
    reached, up_to = 0.0, 0.0
    for name, request in ladder.requests(seconds):
        rung, goal = measured(request), request.goal
        gap = abs(rung.bound - rung.value) / rung.value if rung.value else float(rung.bound > 0)
        worth, most = (rung.value, rung.bound) if goal.rises else (_inverse(rung.value), _inverse(rung.bound))
        marks = [mark for mark, is_so in (("OPEN", gap > over), ("SLOW", rung.worked > slow)) if is_so]
        marks += ["LESS"] if worth < reached * (1 - (CLOSE if goal.rises else HURRIED)) else []
        if most < reached * (1 - 1e-6) and (goal.rises or up_to <= rung.up_to):
            raise SystemExit(f"{name}: the bound {rung.bound:,.6g} is beaten by what a lower rung reaches")
        if worth > reached:
            reached, up_to = worth, rung.rows_per_second
        figures = f"{rung.value:14,.6g} {gap:8.2%} {rung.seconds:7.1f} {rung.worked:7.1f}"
        print(f"  {name:24} {figures} {' '.join(marks):9} {rung.text}", flush=True)


def main() -> None:
    """Print a row for each rung of each ladder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0..12", help="from..to of what is drawn")
    parser.add_argument("--kind", choices=sorted(KINDS), default="budgets", help="what is drawn")
    parser.add_argument("--known", action="store_true", help="the cases that were found to be open")
    parser.add_argument("--seconds", type=float, default=30.0, help="as heterps plan --seconds")
    parser.add_argument("--over", type=float, default=0.02, help="a gap above which a row is marked")
    parser.add_argument("--slow", type=float, default=5.0, help="processor seconds above which a row is marked")
    chosen = parser.parse_args()
    low, high = map(int, chosen.seeds.split(".."))
    print(f"  {'':24} {'value':>14} {'gap':>8} {'seconds':>7} {'worked':>7}")
    for ladder in known() if chosen.known else map(KINDS[chosen.kind], range(low, high)):
        climb(ladder, chosen.seconds, chosen.over, chosen.slow)


if __name__ == "__main__":
    main()
