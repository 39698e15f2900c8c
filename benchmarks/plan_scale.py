"""Large graphs: how long planning takes, and how much of the certificate stays open.

python -m benchmarks.plan_scale [--only NAME ...] [--seconds 30] [--all-batches] [--others]

Models that machines write: chains and a transformer of a thousand ops and more, many tables of one kind and of many,
towers side by side. Each is planned for a number of rows per second on c6i machines and L4s, at one batch size unless
all are asked for; small ones on six pools, four of them parts of two machines that are rented whole, at all of them,
and for the most rows per second within a budget with three such machines. ``goal`` is what is wanted of the time; the
gap is to be at most 2 % where branches are alike. ``--others`` has models that no threshold was chosen by.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import heterps as hps
from benchmarks import other_models as others
from heterps import ops
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.models import ctrdnn, resnet, wide_deep
from heterps.planner import Goal, MaxThroughput, MinCost
from heterps.planner.planner import BATCH_SIZES, Request, solve
from heterps.stages import layers_of

HARDWARE = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 400

[[pool]]
name = "gpu"
device = "l4"
cap = 200
serves = false
"""

PRODUCTS = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 40

[[pool]]
name = "gpu"
device = "l4"
cap = 8
serves = false
price_per_hour = 0.9

[[product]]
name = "g6-xlarge"
cap = 16

[[pool]]
name = "v100"
device = "v100"

[[pool]]
name = "side"
device = "c6a-8xlarge"

[[product]]
name = "shelf"
pools = { v100 = 4, side = 12 }
price_per_hour = 11.0
"""
THREE = PRODUCTS.replace("g6-xlarge", "g4dn-xlarge") + '\n[[product]]\nname = "p4d-24xlarge"\ncap = 16\n'
LINK = '\n[[link]]\nsource = "cpu"\ntarget = "gpu"\nbytes_per_s = 5e9\n'

SMALL_MEMORY = """
[[pool]]
name = "cpu"
device = "box"
cap = 400

[[pool]]
name = "old"
device = "older"
cap = 100
serves = false

[[pool]]
name = "gpu"
device = "card"
cap = 100
serves = false

[device.box]
kind = "cpu"
cores = 16
flops = { float32 = 1.5e12 }
memory_bytes = 2e9
memory_bytes_per_s = 1e11
network_bytes_per_s = 1.5e9
price_per_hour = 0.7

[device.older]
kind = "gpu"
flops = { float32 = 4e12 }
memory_bytes = 3e8
memory_bytes_per_s = 2e11
network_bytes_per_s = 1.5e9
price_per_hour = 0.5

[device.card]
kind = "gpu"
flops = { float32 = 1.2e13 }
memory_bytes = 6e8
memory_bytes_per_s = 3e11
network_bytes_per_s = 3e9
price_per_hour = 1.1
"""


@dataclass(frozen=True)
class Large:
    """A model, the goal (a number: so many rows a second), the seconds planning may take; hardware, batch sizes."""

    make: Callable[[], hps.Graph]
    wanted: float | Goal
    seconds: float
    hardware: str = HARDWARE
    batch_sizes: tuple[int, ...] = (4096,)


def chain(length: int) -> hps.Graph:
    """One table and so many dense ops, one after another."""
    h = ops.concat(ops.lookup(ops.input("ids", shape=(26,), dtype="uint64"), table="t", dim=8), name="features")
    for i in range((length - 5) // 2):
        h = ops.relu(ops.dense(h, 64, name=f"fc{i}"), name=f"relu{i}")
    return _loss(h)


def tables(dims: Sequence[int], width: int = 256) -> hps.Graph:
    """A table of its own for every field, with rows of these sizes."""
    fields = [ops.input(f"c{i}", shape=(1,), dtype="uint64") for i in range(len(dims))]
    rows = [ops.lookup(ids, table=f"t{i}", dim=dims[i]) for i, ids in enumerate(fields)]
    return _loss(ops.relu(ops.dense(ops.concat(*rows, name="features"), width, name="fc"), name="fc_relu"))


def pairs(count: int) -> hps.Graph:
    """DLRM with a table of its own for every field."""
    fields = [ops.input(f"c{i}", shape=(1,), dtype="uint64") for i in range(count)]
    rows = [ops.lookup(ids, table=f"t{i}", dim=16) for i, ids in enumerate(fields)]
    h = ops.concat(ops.dot_interaction(*rows, name="pairs"), *rows, name="features")
    for i in range(3):
        h = ops.relu(ops.dense(h, 400, name=f"top{i}"), name=f"top{i}_relu")
    return _loss(h)


def towers(count: int) -> hps.Graph:
    """Towers side by side, each with a table and two layers."""
    ends = []
    for i in range(count):
        h = ops.lookup(ops.input(f"c{i}", shape=(4,), dtype="uint64"), table=f"t{i}", dim=16, pooling="sum")
        for j in range(2):
            h = ops.relu(ops.dense(h, 64, name=f"fc{i}_{j}"), name=f"relu{i}_{j}")
        ends.append(h)
    return _loss(ops.concat(*ends, name="features"))


def transformer(blocks: int, heads: int = 4, length: int = 8, width: int = 32) -> hps.Graph:
    """Attention over a history, head by head, as an exporter writes it."""
    h = ops.lookup(ops.input("ids", shape=(length,), dtype="uint64"), table="t", dim=width)
    for b in range(blocks):
        h = _block(h, f"b{b}", heads, width)
    return _loss(ops.mean(h, axis=0, name="pooled"))


def _block(h: ops.Tensor, name: str, heads: int, width: int) -> ops.Tensor:
    parts = []
    for i in range(heads):
        q, k, v = (ops.dense(h, width // heads, name=f"{name}_{i}{part}") for part in "qkv")
        scores = ops.softmax(ops.matmul(q, k, transpose_b=True, name=f"{name}_{i}s"), name=f"{name}_{i}p")
        parts.append(ops.matmul(scores, v, name=f"{name}_{i}o"))
    mixed = ops.dense(ops.concat(*parts, name=f"{name}_heads"), width, name=f"{name}_mix")
    h = ops.layer_norm(ops.add(h, mixed, name=f"{name}_sum"), name=f"{name}_norm")
    wide = ops.relu(ops.dense(h, 2 * width, name=f"{name}_up"), name=f"{name}_relu")
    down = ops.dense(wide, width, name=f"{name}_down")
    return ops.layer_norm(ops.add(h, down, name=f"{name}_sum2"), name=f"{name}_norm2")


def _loss(h: ops.Tensor) -> hps.Graph:
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y"), name="loss"))


MODELS = {
    "chain of 1,000": Large(lambda: chain(1000), 1e5, 2.0),
    "chain of 5,000": Large(lambda: chain(5000), 2e4, 10.0),
    "26 tables of one kind": Large(lambda: tables([16] * 26), 5e6, 2.0),
    "26 tables, DLRM": Large(lambda: pairs(26), 2e6, 2.0),
    "100 tables, DLRM": Large(lambda: pairs(100), 1e6, 2.0),
    "26 tables of 26 kinds": Large(lambda: tables([4 * i + 4 for i in range(26)]), 2e6, 2.0),
    "100 towers": Large(lambda: towers(100), 1e6, 2.0),
    "1,000 tables": Large(lambda: tables([8] * 1000), 1e5, 10.0),
    "transformer of 996": Large(lambda: transformer(30), 1e5, 2.0),
    "products, Wide & Deep": Large(wide_deep, 5e5, 2.0, PRODUCTS + LINK, BATCH_SIZES),
    "products, CTRDNN": Large(lambda: ctrdnn(hidden=(256,) * 16), 5e6, 2.0, PRODUCTS + LINK, BATCH_SIZES),
    "products, shared stages": Large(lambda: ctrdnn(hidden=(256,) * 16), 5e6, 2.0, PRODUCTS, BATCH_SIZES),
    "three, Wide & Deep, 40": Large(wide_deep, MaxThroughput(40), 5.0, THREE, BATCH_SIZES),
    "three, Wide & Deep, 300": Large(wide_deep, MaxThroughput(300), 5.0, THREE, BATCH_SIZES),
    "three, CTRDNN, 40": Large(lambda: ctrdnn(hidden=(256,) * 16), MaxThroughput(40), 5.0, THREE, BATCH_SIZES),
    "three, CTRDNN, 100": Large(lambda: ctrdnn(hidden=(256,) * 16), MaxThroughput(100), 5.0, THREE, BATCH_SIZES),
    "three, CTRDNN, 280": Large(lambda: ctrdnn(hidden=(256,) * 16), MaxThroughput(280), 5.0, THREE, BATCH_SIZES),
    "three, CTRDNN of 8, 300": Large(ctrdnn, MaxThroughput(300), 5.0, THREE, BATCH_SIZES),
}

OTHERS = {
    "60 tables, two crosses": Large(others.crossed, 1e6, 2.0),
    "ladder of 800": Large(others.ladder, 1e5, 2.0),
    "inception of 1,200": Large(others.inception, 5e4, 2.0),
    "200 tables, 5 tasks": Large(others.many_tasks, 5e5, 2.0),
    "two sides": Large(others.two_sides, 1e6, 2.0),
    "series-parallel of 1,000": Large(others.series_parallel, 1e5, 2.0),
    "another of 1,000": Large(lambda: others.series_parallel(seed=2), 1e5, 2.0),
    "a third of 2,000": Large(lambda: others.series_parallel(2000, seed=3), 5e4, 4.0),
    "chain of 2,000, memory": Large(lambda: chain(2000), 5e4, 4.0, SMALL_MEMORY),
    "encoder-decoder": Large(others.encoder_decoder, 1e5, 2.0),
    "ResNet": Large(resnet, 1e4, 2.0),
    "DIN, 120 tables": Large(others.histories, 3e5, 2.0),
    "FFM, 24 fields": Large(others.field_aware, 3e5, 2.0),
    "300 tables of ten kinds": Large(others.of_many_sizes, 3e5, 2.0),
    "DLRM, 4 tasks": Large(others.many_tasks_crossed, 1e6, 2.0),
    "two MMoE": Large(others.task_pairs, 5e5, 2.0),
    "PLE, 150 tables": Large(others.layered_experts, 3e5, 2.0),
}


def measured(name: str, seconds: float, batch_sizes: tuple[int, ...] | None) -> str:
    """A row: ops, Layers, seconds until the plan, those of the processor, gap, proof."""
    large = (MODELS | OTHERS)[name]
    graph = large.make()
    layers = len(layers_of(graph, batch_size=4096).layers)
    hardware = Hardware.from_toml(large.hardware)
    goal = large.wanted if isinstance(large.wanted, Goal) else MinCost(large.wanted)
    request = Request(graph, hardware, goal, batch_sizes or large.batch_sizes, seconds=seconds)
    began, worked = time.perf_counter(), time.process_time()
    try:
        made = solve(request)
    except PlanError as error:
        return f"{name:24} {len(graph):6,} {layers:6,} {time.perf_counter() - began:8.2f} {str(error)[:60]}"
    took, worked = time.perf_counter() - began, time.process_time() - worked
    assert made.certificate is not None
    found = f"{made.certificate.gap:8.2%}  {made.certificate.proof}"
    return f"{name:24} {len(graph):6,} {layers:6,} {took:8.2f} {worked:9.2f} {large.seconds:6.0f} {found}"


def main() -> None:
    """Print a row per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="names, or parts of them")
    parser.add_argument("--seconds", type=float, default=30.0, help="as heterps plan --seconds")
    parser.add_argument("--all-batches", action="store_true", help="choose the batch size too")
    parser.add_argument("--others", action="store_true", help="models that no threshold was chosen by")
    chosen = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    heads = f"{'model':24} {'ops':>6} {'layers':>6} {'seconds':>8} {'processor':>9}"
    print(f"{heads} {'goal':>6} {'gap':>8}  proof", flush=True)
    for name in OTHERS if chosen.others else MODELS:
        if any(part in name for part in chosen.only):
            print(measured(name, chosen.seconds, BATCH_SIZES if chosen.all_batches else None), flush=True)


if __name__ == "__main__":
    main()
