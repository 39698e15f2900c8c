"""DeepFM: first-order terms, factorisation-machine pairs and an MLP over shared embeddings (Guo et al., 2017)."""

import heterps as hps
from heterps import ops


def deepfm(
    slots: int = 26,
    dense: int = 13,
    dim: int = 16,
    hidden: tuple[int, ...] = (400, 400, 400),
    linear: bool = True,
    weighted: bool = False,
    loss: str = "logloss",
) -> hps.Graph:
    """Columns as for wide_deep; ``linear`` gives the numbers first-order terms too."""
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    x = [ops.input("x", shape=(dense,))] if dense else []
    y, weight = ops.input("y"), [ops.input("weight")] if weighted else []
    first = ops.sum(ops.lookup(ids, table="first", dim=1, init={"kind": "Zeros"}), name="first_order")
    vectors = ops.lookup(ids, table="vectors", dim=dim)
    h = ops.concat(vectors, *x, name="features")
    for i, width in enumerate(hidden):
        h = ops.relu(ops.dense(h, width, name=f"fc{i}"), name=f"relu{i}")
    deep = ops.dense(h, 1, name="out")
    if linear and x:
        deep = ops.add(deep, ops.dense(x[0], 1, bias=False, name="linear"), name="deep")
    logit = ops.add(first, ops.fm(vectors, name="fm"), deep, name="logit")
    return hps.Graph(loss=ops.build(loss, logit, y, *weight, name="loss"))
