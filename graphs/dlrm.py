"""DLRM: a bottom MLP over numbers, pairwise dot products with the embeddings, a top MLP (Naumov et al., 2019)."""

import heterps as hps
from heterps import ops


def mlp(h: ops.Tensor, widths: tuple[int, ...], name: str) -> ops.Tensor:
    for i, width in enumerate(widths):
        h = ops.relu(ops.dense(h, width, name=f"{name}{i}"), name=f"{name}{i}_relu")
    return h


def dlrm(
    slots: int = 26,
    dense: int = 13,
    dim: int = 16,
    bottom: tuple[int, ...] = (400,),
    top: tuple[int, ...] = (400, 400, 400),
    weighted: bool = False,
    loss: str = "logloss",
) -> hps.Graph:
    """Columns as for wide_deep."""
    ids = ops.input("ids", shape=(slots,), dtype="uint64")
    y, weight = ops.input("y"), [ops.input("weight")] if weighted else []
    numbers = [mlp(ops.input("x", shape=(dense,)), (*bottom, dim), "bottom")] if dense else []
    pairs = ops.dot_interaction(*numbers, ops.lookup(ids, table="embedding", dim=dim), name="pairs")
    h = mlp(ops.concat(*numbers, pairs, name="features"), top, "top")
    return hps.Graph(loss=ops.build(loss, ops.dense(h, 1, name="out"), y, *weight, name="loss"))
