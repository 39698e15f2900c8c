"""CTR-DNN with 16 layers: embedding, input, thirteen hidden layers and the output, as the HeterPS paper plans it."""

import heterps as hps
from heterps import ops


def ctrdnn(
    slots: int = 26,
    dense: int = 13,
    dim: int = 10,
    hidden: tuple[int, ...] = (1024, 1024, 512, 512, 512, 256, 256, 256, 128, 128, 128, 64, 64),
    weighted: bool = False,
    loss: str = "logloss",
) -> hps.Graph:
    """Columns as for wide_deep."""
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    x = [ops.input("x", shape=(dense,))] if dense else []
    y, weight = ops.input("y"), [ops.input("weight")] if weighted else []
    h = ops.concat(ops.lookup(ids, table="embedding", dim=dim), *x, name="features")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    return hps.Graph(loss=ops.build(loss, ops.dense(h, 1, name="out"), y, *weight, name="loss"))
