"""Wide & Deep: a linear model over ids beside an MLP over their embeddings (Cheng et al., 2016)."""

import heterps as hps
from heterps import ops


def wide_deep(
    slots: int = 26,
    dense: int = 13,
    dim: int = 16,
    hidden: tuple[int, ...] = (400, 400, 400),
    dropout: float = 0.0,
    weighted: bool = False,
    loss: str = "logloss",
) -> hps.Graph:
    """Columns ``ids``, ``x`` (where ``dense`` is not 0), ``y``, and ``weight`` where it is ``weighted``.

    ``loss`` is ``logloss`` for clicks, ``mse`` for amounts and ratings.
    """
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    x = [ops.input("x", shape=(dense,))] if dense else []
    y, weight = ops.input("y"), [ops.input("weight")] if weighted else []
    wide = ops.sum(ops.lookup(ids, table="wide", dim=1, init={"kind": "Zeros"}), name="wide_sum")
    h = ops.concat(ops.lookup(ids, table="deep", dim=dim), *x, name="features")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
        h = ops.dropout(h, dropout, name=f"drop{i}") if dropout else h
    logit = ops.add(wide, ops.dense(h, 1, name="out"), name="logit")
    return hps.Graph(loss=ops.build(loss, logit, y, *weight, name="loss"))
