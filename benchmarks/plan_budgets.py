"""Budgets and caps: how much of the certificate stays open, how long that takes, and whether more ever brings less.

python -m benchmarks.plan_budgets [--seeds 0..20] [--known] [--seconds 30] [--over 0.02]

Each seed draws a model, machines (some rented whole, some pools with caps, a shared Host or a link now and then) and
options, and plans them for the most rows per second on a ladder: with more and more money, or with more and more
machines. What a lower rung reaches a higher one reaches too, whatever the planner says of either: a value that falls is
a plan that was missed, a bound below the value of a lower rung is a false certificate, and stops. ``--known`` has the
cases that were found to be open.
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
from heterps.planner import MaxThroughput
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
CLOSE = 1.0e-3  # relative: values that batch sizes are not told apart by


@dataclass(frozen=True)
class Ladder:
    """A model on machines, with more and more of something: a request for each rung, named."""

    name: str
    rungs: tuple[tuple[str, str, float], ...]  # what it is called, hardware, budget
    model: str
    options: dict[str, Any] = field(default_factory=dict)

    def requests(self, seconds: float) -> Iterator[tuple[str, Request]]:
        """What is planned, rung by rung."""
        graph, options = MODELS[self.model](), {"batch_sizes": BATCH_SIZES, **self.options}
        for name, hardware, budget in self.rungs:
            yield name, Request(graph, Hardware.from_toml(hardware), MaxThroughput(budget), seconds=seconds, **options)


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
    options: dict[str, Any] = {}
    if rng.random() < 0.2:
        options["head_room"] = 0.2
    if rng.random() < 0.2:
        options["replicas"] = 2
    if rng.random() < 0.3:
        options["batch_sizes"] = rng.choice(((4096,), (256, 512, 1024, 2048, 4096, 8192), (16384, 32768)))
    link = '[[link]]\nsource = "cpu"\ntarget = "cpu"\nbytes_per_s = 5e9\n' if rng.random() < 0.15 else ""
    hardware = "\n".join([*(capped(*part) for part in parts), link])
    name = f"{seed}: {model}, {', '.join(_short(part) for part in parts)}{', a link' if link else ''}"
    name += "".join(f", {key} {value}" for key, value in options.items())
    if rng.random() < 0.6:
        start = rng.choice((3.0, 12.0, 40.0, 120.0))
        budgets = [round(start * step, 2) for step in (1, 1.4, 3, 8)]
        return Ladder(name, tuple((f"{b:g} an hour", hardware, b) for b in budgets), model, options)
    budget, more = rng.choice((20.0, 60.0, 200.0, 478.0)), rng.randrange(len(parts))
    rungs = []
    for cap in (1, 4, 16, 64):
        texts = [capped(text, cap if i == more else at) for i, (text, at) in enumerate(parts)]
        rungs.append((f"{budget:g}, cap {cap} of {more}", "\n".join([*texts, link]), budget))
    return Ladder(name, tuple(rungs), model, options)


def _short(part: tuple[str, int | None]) -> str:
    text, cap = part
    named = text.split('"')
    return f"{named[3] if len(named) > 3 else named[1]}{'' if cap is None else f' x{cap}'}"


def known() -> list[Ladder]:
    """Cases that were open, and those of plan_scale."""
    budgets = lambda text, *prices: tuple((f"{b:g} an hour", text, float(b)) for b in prices)  # noqa: E731
    capped_at = lambda text, budget, *caps: tuple(  # noqa: E731
        (f"{budget:g}, caps {cap}", text.replace("cap = 16", f"cap = {cap}"), float(budget)) for cap in caps
    )
    return [
        Ladder("CTRDNN 20 with g5", budgets(G5, 10, 20, 30, 40, 60), "CTRDNN 20"),
        Ladder("CTRDNN 20, caps of products", capped_at(G5, 478, 8, 16, 32, 64), "CTRDNN 20"),
        Ladder("CTRDNN 20, caps, g4dn", capped_at(THREE, 478, 8, 16, 32, 64), "CTRDNN 20"),
        Ladder("CTRDNN 8, caps, g4dn", capped_at(THREE, 478, 8, 16, 32, 64), "CTRDNN"),
        Ladder("two products", budgets(PRODUCTS, 3, 10, 40, 200), "CTRDNN 20"),
    ]


@dataclass
class Rung:
    """What came out."""

    value: float
    bound: float
    seconds: float
    worked: float
    text: str


def measured(request: Request) -> Rung:
    """Plan one rung."""
    began, worked = time.perf_counter(), time.process_time()
    try:
        made = solve(request)
        assert made.certificate is not None
        found, text = made.certificate, f"{made.batch_size} {made.certificate.proof}"
        value, bound = found.value, found.bound
    except PlanError as error:
        value, bound, text = 0.0, 0.0 if str(error).startswith("no feasible plan") else float("inf"), str(error)[:90]
    return Rung(value, bound, time.perf_counter() - began, time.process_time() - worked, text.replace("\n", " "))


def climb(ladder: Ladder, seconds: float, over: float, slow: float) -> None:
    """Plan a ladder and print its rungs."""
    print(ladder.name, flush=True)
    reached = 0.0
    for name, request in ladder.requests(seconds):
        rung = measured(request)
        gap = (rung.bound - rung.value) / rung.value if rung.value else float(rung.bound > 0)
        marks = [mark for mark, is_so in (("OPEN", gap > over), ("SLOW", rung.worked > slow)) if is_so]
        marks += ["LESS"] if rung.value < reached * (1 - CLOSE) else []
        if rung.bound < reached * (1 - 1e-6):
            raise SystemExit(f"{name}: the bound {rung.bound:,.6g} is below {reached:,.6g}, which a lower rung reaches")
        reached = max(reached, rung.value)
        figures = f"{rung.value:14,.0f} {gap:8.2%} {rung.seconds:7.1f} {rung.worked:7.1f}"
        print(f"  {name:24} {figures} {' '.join(marks):9} {rung.text}", flush=True)


def main() -> None:
    """Print a row for each rung of each ladder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0..12", help="from..to of what is drawn")
    parser.add_argument("--known", action="store_true", help="the cases that were found to be open")
    parser.add_argument("--seconds", type=float, default=30.0, help="as heterps plan --seconds")
    parser.add_argument("--over", type=float, default=0.02, help="a gap above which a row is marked")
    parser.add_argument("--slow", type=float, default=5.0, help="processor seconds above which a row is marked")
    chosen = parser.parse_args()
    low, high = map(int, chosen.seeds.split(".."))
    print(f"  {'':24} {'rows/s':>14} {'gap':>8} {'seconds':>7} {'worked':>7}")
    for ladder in known() if chosen.known else map(drawn, range(low, high)):
        climb(ladder, chosen.seconds, chosen.over, chosen.slow)


if __name__ == "__main__":
    main()
