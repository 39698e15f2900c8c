"""2EMB: two embedding layers, one over the fields of each side, joined and passed through fully connected layers."""

import heterps as hps
from heterps import ops


def two_emb(
    left_slots: int = 4,
    right_slots: int = 2,
    dim: int = 16,
    hidden: tuple[int, ...] = (128, 64, 32, 16, 8),
    dropout: float = 0.0,
) -> hps.Graph:
    """Columns ``left`` and ``right`` (ids of a fixed number of fields) and ``y``."""
    left, right = ops.input("left", (left_slots,), "uint64"), ops.input("right", (right_slots,), "uint64")
    y = ops.input("y")
    h = ops.concat(
        ops.lookup(left, table="left_rows", dim=dim), ops.lookup(right, table="right_rows", dim=dim), name="features"
    )
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
        h = ops.dropout(h, dropout, name=f"drop{i}") if dropout else h
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), y, name="loss"))
