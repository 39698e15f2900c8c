"""MMoE: experts shared by several tasks, mixed by a gate of each task's own (Ma et al., 2018)."""

import heterps as hps
from heterps import ops


def mmoe(
    slots: int = 19,
    dense: int = 5,
    dim: int = 8,
    experts: int = 4,
    expert: int = 32,
    tasks: int = 2,
    tower: int = 16,
) -> hps.Graph:
    """Columns ``ids``, ``x`` and ``y`` of shape ``(tasks,)``."""
    ids, x = ops.input("ids", (slots,), "uint64"), ops.input("x", (dense,))
    h = ops.concat(ops.lookup(ids, table="embedding", dim=dim), x, name="features")
    mixed = ops.relu(ops.dense(h, experts * expert, name="experts"), name="experts_relu")
    mixed = ops.reshape(mixed, (experts, expert), name="expert_rows")
    logits = []
    for task in range(tasks):
        gate = ops.softmax(ops.dense(h, experts, name=f"gate{task}"), name=f"gate{task}_weights")
        chosen = ops.matmul(ops.reshape(gate, (1, experts), name=f"gate{task}_row"), mixed, name=f"mix{task}")
        own = ops.reshape(chosen, (expert,), name=f"mix{task}_vector")
        own = ops.relu(ops.dense(own, tower, name=f"tower{task}"), name=f"tower{task}_relu")
        logits.append(ops.dense(own, 1, name=f"out{task}"))
    return hps.Graph(loss=ops.multi_logloss(ops.concat(*logits, name="logits"), ops.input("y", (tasks,)), name="loss"))
