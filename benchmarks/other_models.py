"""Large graphs that no threshold of the planner was chosen by: shapes of people's models, and some that none has.

``python -m benchmarks.plan_scale --others`` plans them.
"""

from __future__ import annotations

import random

import heterps as hps
from heterps import ops

__all__ = [
    "crossed",
    "encoder_decoder",
    "field_aware",
    "histories",
    "inception",
    "ladder",
    "layered_experts",
    "many_tasks",
    "many_tasks_crossed",
    "of_many_sizes",
    "series_parallel",
    "task_pairs",
    "two_sides",
]


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


def histories(tables: int = 60, length: int = 20) -> hps.Graph:
    """DIN: each of many histories is attended to by the item, and pooled; other fields have tables of two kinds."""
    item = ops.lookup(ops.input("item", shape=(1,), dtype="uint64"), table="items", dim=16)
    asked, pooled = ops.reshape(item, (16, 1), name="asked"), []
    for i in range(tables):
        ids = ops.input(f"h{i}", shape=(length,), dtype="uint64")
        rows = ops.lookup(ids, table=f"ht{i}", dim=16)
        scores = ops.softmax(ops.reshape(ops.matmul(rows, asked, name=f"s{i}"), (1, length), name=f"s{i}_row"))
        pooled.append(ops.reshape(ops.matmul(scores, rows, name=f"p{i}"), (16,), name=f"p{i}_vector"))
    h = ops.concat(item, *pooled, *_fields([8 + 8 * (i % 2) for i in range(tables)]), name="features")
    for i, width in enumerate((512, 256, 128)):
        h = _step(h, width, f"fc{i}")
    return _loss(h)


def layered_experts(tables: int = 150, layers: int = 3, tasks: int = 3, own: int = 3) -> hps.Graph:
    """PLE: layers of experts, shared ones and those of each task, with a gate for each in every layer."""
    h = ops.concat(*_fields([(8, 16, 24, 32)[i % 4] for i in range(tables)]), name="features")
    states = [h] * (tasks + 1)
    for layer in range(layers):
        made = [[_step(state, 96, f"l{layer}_{k}_{e}") for e in range(own)] for k, state in enumerate(states)]
        shared, names = made[-1], [f"l{layer}_{k}" for k in range(len(states))]
        states = [_mixed([*mine, *shared], h, name) for mine, h, name in zip(made, states, names, strict=True)]
    logits = [ops.dense(_step(state, 32, f"tower{k}"), 1, name=f"out{k}") for k, state in enumerate(states[:tasks])]
    y = ops.input("y", (tasks,))
    return hps.Graph(loss=ops.multi_logloss(ops.concat(*logits, name="logits"), y, name="loss"))


def _mixed(experts: list[ops.Tensor], state: ops.Tensor, name: str) -> ops.Tensor:
    """What a gate chooses of experts."""
    count = len(experts)
    gate = ops.softmax(ops.dense(state, count, name=f"{name}_gate"), name=f"{name}_weights")
    rows = ops.reshape(ops.concat(*experts, name=f"{name}_all"), (count, 96), name=f"{name}_rows")
    chosen = ops.matmul(ops.reshape(gate, (1, count), name=f"{name}_row"), rows, name=f"{name}_mix")
    return ops.reshape(chosen, (96,), name=f"{name}_vector")


def field_aware(fields: int = 24, dim: int = 4) -> hps.Graph:
    """FFM: every field has a table for each other field, and each pair of fields multiplies its two rows."""
    ids = [ops.input(f"c{i}", shape=(1,), dtype="uint64") for i in range(fields)]
    rows = {
        (i, j): ops.lookup(ids[i], table=f"t{i}_{j}", dim=dim) for i in range(fields) for j in range(fields) if i != j
    }
    pairs = [ops.mul(rows[i, j], rows[j, i], name=f"m{i}_{j}") for i in range(fields) for j in range(i + 1, fields)]
    h = ops.concat(*pairs, name="features")
    for i, width in enumerate((400, 400)):
        h = _step(h, width, f"fc{i}")
    return _loss(h)


def of_many_sizes(tables: int = 300, kinds: int = 10) -> hps.Graph:
    """Tables of ten kinds, of which some are pooled from several ids, into a deep stack."""
    rows = []
    for i in range(tables):
        kind = i % kinds
        ids = ops.input(f"c{i}", shape=(1 + kind % 3,), dtype="uint64")
        rows.append(ops.lookup(ids, table=f"t{i}", dim=4 + 4 * kind, pooling="sum"))
    h = ops.concat(*rows, name="features")
    for i, width in enumerate((1024, 512, 256, 128)):
        h = _step(h, width, f"fc{i}")
    return _loss(h)


def many_tasks_crossed(tables: int = 80, tasks: int = 4) -> hps.Graph:
    """DLRM for several tasks: a bottom stack, pairs of all rows, and a top stack for every task."""
    x = ops.input("x", shape=(13,))
    for i, width in enumerate((256, 64, 16)):
        x = _step(x, width, f"bottom{i}")
    rows = _fields([16] * tables)
    h = ops.concat(ops.dot_interaction(x, *rows, name="pairs"), x, name="features")
    logits = []
    for task in range(tasks):
        top = h
        for i, width in enumerate((256, 128)):
            top = _step(top, width, f"top{task}_{i}")
        logits.append(ops.dense(top, 1, name=f"out{task}"))
    y = ops.input("y", (tasks,))
    return hps.Graph(loss=ops.multi_logloss(ops.concat(*logits, name="logits"), y, name="loss"))


def task_pairs(tables: int = 60, experts: int = 4) -> hps.Graph:
    """Two MMoE side by side, over tables of their own, that meet in one loss."""
    ends = []
    for side in ("user", "item"):
        h = ops.concat(*_fields([(8, 16)[i % 2] for i in range(tables)], side), name=f"{side}_features")
        each = [_step(_step(h, 192, f"{side}{e}_a"), 96, f"{side}{e}_b") for e in range(experts)]
        ends += [_mixed(each, h, f"{side}{task}") for task in range(2)]
    return _loss(_step(ops.concat(*ends, name="both"), 64, "top"))


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
