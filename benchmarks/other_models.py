"""Large graphs that no threshold of the planner was chosen by: shapes of people's models, and some that none has.

``python -m benchmarks.plan_scale --others`` plans them.
"""

from __future__ import annotations

import random

import heterps as hps
from heterps import ops

__all__ = ["crossed", "encoder_decoder", "inception", "ladder", "many_tasks", "series_parallel", "two_sides"]


def _fields(dims: list[int], prefix: str = "c") -> list[ops.Tensor]:
    """A table of its own for every field, with rows of these sizes."""
    ids = [ops.input(f"{prefix}{i}", shape=(1,), dtype="uint64") for i in range(len(dims))]
    return [ops.lookup(one, table=f"{prefix}t{i}", dim=dim) for i, (one, dim) in enumerate(zip(ids, dims, strict=True))]


def _loss(h: ops.Tensor) -> hps.Graph:
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y"), name="loss"))


def _step(h: ops.Tensor, width: int, name: str) -> ops.Tensor:
    return ops.relu(ops.dense(h, width, name=name), name=f"{name}_relu")


def crossed(tables: int = 60, kinds: int = 4, crosses: int = 3) -> hps.Graph:
    """DCN-v2 in two towers, each crossed over half of the tables, of which there are several kinds."""
    rows = _fields([8 * 2 ** (i % kinds) for i in range(tables)])
    ends = []
    for tower, mine in enumerate((rows[: tables // 2], rows[tables // 2 :])):
        x0 = c = h = ops.concat(*mine, name=f"features{tower}")
        for i in range(crosses):
            c = ops.cross(x0, c, rank=64, name=f"cross{tower}_{i}")
            h = _step(h, 512, f"deep{tower}_{i}")
        ends += [c, h]
    return _loss(_step(ops.concat(*ends, name="both"), 256, "top"))


def ladder(length: int = 800, width: int = 64) -> hps.Graph:
    """Two rails with a rung at every step: what crosses a cut is two tensors wherever it lies."""
    a = b = ops.concat(ops.lookup(ops.input("ids", shape=(26,), dtype="uint64"), table="t", dim=8), name="features")
    for i in range((length - 7) // 5):
        a = _step(a, width, f"a{i}")
        b = ops.add(_step(b, width, f"b{i}"), a, name=f"rung{i}")
    return _loss(ops.concat(a, b, name="ends"))


def inception(length: int = 1200, width: int = 48) -> hps.Graph:
    """Blocks of four branches of unequal length, which are joined after each."""
    h = ops.concat(ops.lookup(ops.input("ids", shape=(26,), dtype="uint64"), table="t", dim=8), name="features")
    for block in range((length - 5) // 17):
        ends = []
        for branch, depth in enumerate((1, 2, 3, 2)):
            part = h
            for i in range(depth):
                part = _step(part, width * (branch + 1) // 2, f"b{block}_{branch}_{i}")
            ends.append(part)
        h = ops.concat(*ends, name=f"joined{block}")
    return _loss(h)


def many_tasks(tables: int = 200, experts: int = 8, tasks: int = 5) -> hps.Graph:
    """MMoE with experts of their own and a gate for every task, over many tables of three kinds."""
    h = ops.concat(*_fields([(8, 16, 32)[i % 3] for i in range(tables)]), name="features")
    each = [_step(_step(h, 256, f"expert{e}_a"), 64, f"expert{e}_b") for e in range(experts)]
    mixed = ops.reshape(ops.concat(*each, name="experts"), (experts, 64), name="expert_rows")
    logits = []
    for task in range(tasks):
        gate = ops.softmax(ops.dense(h, experts, name=f"gate{task}"), name=f"gate{task}_weights")
        chosen = ops.matmul(ops.reshape(gate, (1, experts), name=f"gate{task}_row"), mixed, name=f"mix{task}")
        own = _step(ops.reshape(chosen, (64,), name=f"mix{task}_vector"), 32, f"tower{task}")
        logits.append(ops.dense(own, 1, name=f"out{task}"))
    y = ops.input("y", (tasks,))
    return hps.Graph(loss=ops.multi_logloss(ops.concat(*logits, name="logits"), y, name="loss"))


def two_sides(tables: int = 40, length: int = 60) -> hps.Graph:
    """A user's and an item's tower, each with tables of five kinds and a stack of its own, that meet at the end."""
    ends = []
    for side in ("user", "item"):
        h = ops.concat(*_fields([4 + 4 * (i % 5) for i in range(tables)], side), name=f"{side}_features")
        for i in range(length):
            h = _step(h, 128, f"{side}_fc{i}")
        ends.append(h)
    return _loss(ops.mul(*ends, name="both"))


def series_parallel(length: int = 1000, seed: int = 1) -> hps.Graph:
    """Chains and branches within branches, drawn from a seed."""
    rng, made = random.Random(seed), [0]

    def grown(h: ops.Tensor, budget: int) -> ops.Tensor:
        """So many ops, about, after a tensor."""
        while budget > 8:
            made[0] += 1
            if rng.random() < 0.7:
                h, budget = _step(h, rng.choice((32, 64, 128)), f"n{made[0]}"), budget - 2
                continue
            count = rng.randint(2, 4)
            part = min(budget // count, rng.randint(4, 120))
            name = f"join{made[0]}"
            h = ops.concat(*(grown(_step(h, 32, f"{name}_{i}"), part) for i in range(count)), name=name)
            budget -= count * part
        return h

    h = ops.concat(ops.lookup(ops.input("ids", shape=(26,), dtype="uint64"), table="t", dim=8), name="features")
    return _loss(grown(h, length - 5))


def encoder_decoder(blocks: int = 12, heads: int = 4, length: int = 8, width: int = 32) -> hps.Graph:
    """Two histories: one is encoded, the other decoded with attention to it in every block."""
    sides = [
        ops.lookup(ops.input(name, shape=(length,), dtype="uint64"), table=name, dim=width)
        for name in ("history", "wanted")
    ]
    memory, h = sides
    for b in range(blocks):
        memory = _widened(_attended(memory, memory, f"e{b}", heads, width), f"e{b}", width)
    for b in range(blocks):
        h = _attended(h, h, f"d{b}", heads, width)
        h = _widened(_attended(h, memory, f"x{b}", heads, width), f"d{b}", width)
    return _loss(ops.mean(h, axis=0, name="pooled"))


def _attended(h: ops.Tensor, to: ops.Tensor, name: str, heads: int, width: int) -> ops.Tensor:
    parts = []
    for i in range(heads):
        each = zip("qkv", (h, to, to), strict=True)
        q, k, v = (ops.dense(x, width // heads, name=f"{name}_{i}{part}") for part, x in each)
        scores = ops.softmax(ops.matmul(q, k, transpose_b=True, name=f"{name}_{i}s"), name=f"{name}_{i}p")
        parts.append(ops.matmul(scores, v, name=f"{name}_{i}o"))
    mixed = ops.dense(ops.concat(*parts, name=f"{name}_heads"), width, name=f"{name}_mix")
    return ops.layer_norm(ops.add(h, mixed, name=f"{name}_sum"), name=f"{name}_norm")


def _widened(h: ops.Tensor, name: str, width: int) -> ops.Tensor:
    wide = ops.relu(ops.dense(h, 2 * width, name=f"{name}_up"), name=f"{name}_relu")
    down = ops.dense(wide, width, name=f"{name}_down")
    return ops.layer_norm(ops.add(h, down, name=f"{name}_sum2"), name=f"{name}_norm2")
