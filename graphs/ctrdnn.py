"""CTR-DNN with 16 layers: embedding, input, thirteen hidden layers and the output, as the HeterPS paper plans it."""

import heterps as hps
from heterps import ops


def ctrdnn(
    slots: int = 26,
    dense: int = 13,
    dim: int = 10,
    hidden: tuple[int, ...] = (1024, 1024, 512, 512, 512, 256, 256, 256, 128, 128, 128, 64, 64),
) -> hps.Graph:
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    x, y = ops.input("x", shape=(dense,)), ops.input("y")
    h = ops.concat(ops.lookup(ids, table="embedding", dim=dim), x, name="features")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), y, name="loss"))
