"""Wide & Deep: a linear model over ids beside an MLP over their embeddings (Cheng et al., 2016)."""

import heterps as hps
from heterps import ops


def wide_deep(
    slots: int = 26, dense: int = 13, dim: int = 16, hidden: tuple[int, ...] = (400, 400, 400), dropout: float = 0.0
) -> hps.Graph:
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    x, y = ops.input("x", shape=(dense,)), ops.input("y")
    wide = ops.sum(ops.lookup(ids, table="wide", dim=1, init={"kind": "Zeros"}), name="wide_sum")
    h = ops.concat(ops.lookup(ids, table="deep", dim=dim), x, name="features")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
        h = ops.dropout(h, dropout, name=f"drop{i}") if dropout else h
    logit = ops.add(wide, ops.dense(h, 1, name="out"), name="logit")
    return hps.Graph(loss=ops.logloss(logit, y, name="loss"))
