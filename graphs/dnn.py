"""A plain MLP over numbers and vectors of categories, either of which may be missing."""

import heterps as hps
from heterps import ops


def dnn(
    slots: int = 0,
    dense: int = 13,
    dim: int = 16,
    hidden: tuple[int, ...] = (256, 128),
    weighted: bool = False,
    loss: str = "logloss",
) -> hps.Graph:
    """Columns ``ids`` (where ``slots`` is not 0), otherwise as for wide_deep."""
    ids = [ops.input("ids", shape=(slots,), dtype="uint64")] if slots else []
    x = [ops.input("x", shape=(dense,))] if dense else []
    y, weight = ops.input("y"), [ops.input("weight")] if weighted else []
    h = ops.concat(*(ops.lookup(one, table="embedding", dim=dim) for one in ids), *x, name="features")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    return hps.Graph(loss=ops.build(loss, ops.dense(h, 1, name="out"), y, *weight, name="loss"))
