"""DCN-v2: cross layers that multiply features explicitly, beside an MLP (Wang et al., 2021)."""

import heterps as hps
from heterps import ops


def dcn_v2(
    slots: int = 26,
    dense: int = 13,
    dim: int = 16,
    crosses: int = 2,
    rank: int | None = None,
    hidden: tuple[int, ...] = (400, 400),
    weighted: bool = False,
    loss: str = "logloss",
) -> hps.Graph:
    """Columns as for wide_deep."""
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    x = [ops.input("x", shape=(dense,))] if dense else []
    y, weight = ops.input("y"), [ops.input("weight")] if weighted else []
    x0 = ops.concat(ops.lookup(ids, table="embedding", dim=dim), *x, name="features")
    c = x0
    for i in range(crosses):
        c = ops.cross(x0, c, rank=rank, name=f"cross{i}")
    h = x0
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    logit = ops.dense(ops.concat(c, h, name="both"), 1, name="out")
    return hps.Graph(loss=ops.build(loss, logit, y, *weight, name="loss"))
