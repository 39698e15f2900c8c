"""word2vec: skip-grams against drawn negatives (Mikolov et al., 2013)."""

from collections.abc import Sequence

import heterps as hps
from heterps import ops


def word2vec(
    vocabulary: int = 10_000,
    dim: int = 64,
    negatives: int = 5,
    weights: Sequence[float] | None = None,
) -> hps.Graph:
    """Columns ``word`` and ``context``: ids below ``vocabulary``. ``weights``: how often each id is drawn."""
    word, context = (ops.input(name, dtype="uint64") for name in ("word", "context"))
    drawn = ops.negative_sampling(context, negatives, vocabulary, weights=weights, name="negatives")
    vector = ops.lookup(word, table="words", dim=dim, name="vector", init={"kind": "Uniform", "limit": 0.5 / dim})
    true, others = (
        ops.lookup(ids, table="contexts", dim=dim, name=name, init={"kind": "Zeros"})
        for ids, name in ((context, "true"), (drawn, "others"))
    )
    score = ops.sum(ops.mul(vector, true, name="agree"), name="score")
    column = ops.reshape(vector, (dim, 1), name="column")
    scores = ops.reshape(ops.matmul(others, column, name="disagree"), (negatives,), name="scores")
    loss = ops.nce(score, scores, context, drawn, correction=False, name="loss")
    return hps.Graph(loss=loss, outputs={"vector": vector})
