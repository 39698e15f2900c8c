"""NCE: the next item from the ones before, one layer over their mean, told apart from drawn items."""

from collections.abc import Sequence

import heterps as hps
from heterps import ops


def nce(
    vocabulary: int = 10_000,
    dim: int = 64,
    negatives: int = 20,
    weights: Sequence[float] | None = None,
    softmax: bool = False,
    mean_history: float = 10.0,
) -> hps.Graph:
    """Columns ``history`` (ragged) and ``target``, ids below ``vocabulary``; ``softmax`` uses a sampled softmax."""
    history = ops.input("history", dtype="uint64", ragged=True, mean_length=mean_history)
    target = ops.input("target", dtype="uint64")
    drawn = ops.negative_sampling(target, negatives, vocabulary, weights=weights, name="negatives")
    before = ops.lookup(history, table="before", dim=dim, pooling="mean", name="interest")
    state = ops.tanh(ops.dense(before, dim, name="fc"), name="state")

    def score(ids: ops.Tensor, name: str) -> ops.Tensor:
        """State times the item's vector, plus the item's own bias."""
        rows = ops.lookup(ids, table="items", dim=dim, name=f"{name}_rows")
        bias = ops.lookup(ids, table="bias", dim=1, init={"kind": "Zeros"}, name=f"{name}_bias")
        agree = ops.sum(ops.mul(rows, state, name=f"{name}_product"), axis=-1, keepdims=True, name=f"{name}_agree")
        total = ops.add(agree, bias, name=f"{name}_total")
        return ops.reshape(total, ids.shape or (1,), name=f"{name}_score")

    loss = ops.sampled_softmax if softmax else ops.nce
    return hps.Graph(
        loss=loss(score(target, "true"), score(drawn, "drawn"), target, drawn, name="loss"),
        outputs={"state": state},
    )
