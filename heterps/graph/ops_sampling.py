"""Model-building functions: drawn negatives and the losses that use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import heterps.graph.builtin_sampling  # noqa: F401  (registers the kinds)
from heterps.errors import GraphError
from heterps.graph.builtin_sampling import SAMPLER
from heterps.graph.tensor import Tensor, build

__all__ = ["in_batch_softmax", "multi_logloss", "nce", "negative_sampling", "sampled_softmax"]


def negative_sampling(
    ids: Tensor,
    count: int,
    vocabulary: int,
    *,
    distribution: str | None = None,
    weights: Sequence[float] | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw ``count`` ids for each sample, the same for every attempt at a batch.

    Parameters
    ----------
    ids
        Any column: says how many samples there are.
    count, vocabulary
        How many to draw, from ids 0 to ``vocabulary - 1``.
    distribution
        ``"uniform"``; ``"log_uniform"`` for ids sorted by falling frequency (Zipf); ``"weights"``, the default where
        weights are given.
    weights
        One number per id, for example counts to the power 0.75.
    """
    chosen = distribution or ("uniform" if weights is None else "weights")
    given = None if weights is None else tuple(float(w) for w in weights)
    return build(
        "negative_sampling", ids, name=name, count=count, vocabulary=vocabulary, distribution=chosen, weights=given
    )


def _sampler(sampled: Tensor) -> dict[str, Any]:
    if sampled.kind.name != "negative_sampling":
        raise GraphError(f"sampled must come from ops.negative_sampling, got {sampled!r}")
    return {key: sampled.attrs[key] for key in SAMPLER}


def nce(
    score: Tensor, scores: Tensor, true: Tensor, sampled: Tensor, *, correction: bool = True, name: str | None = None
) -> Tensor:
    """Noise-contrastive estimation: tell the true id from sampled ones.

    Parameters
    ----------
    score, scores
        Of the true id, and ``(count,)`` of the sampled ids.
    true, sampled
        The ids; ``sampled`` comes from :func:`negative_sampling`. One that equals the true id counts for nothing.
    correction
        Subtract ``log(count * q)`` from each score, q being the probability of drawing that id. Without it this is the
        negative sampling of word2vec.
    """
    return build("nce", score, scores, true, sampled, name=name, correction=correction, **_sampler(sampled))


def sampled_softmax(score: Tensor, scores: Tensor, true: Tensor, sampled: Tensor, *, name: str | None = None) -> Tensor:
    """Cross entropy of the true id among itself and sampled ids, scores corrected by ``log q``; as for :func:`nce`."""
    return build("sampled_softmax", score, scores, true, sampled, name=name, **_sampler(sampled))


def in_batch_softmax(
    user: Tensor,
    item: Tensor,
    item_id: Tensor | None = None,
    log_share: Tensor | None = None,
    *,
    temperature: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Cross entropy of each sample's own item among the items of the whole batch.

    Parameters
    ----------
    user, item
        ``(dim,)`` each; scores are their dot products over ``temperature``.
    item_id
        Where given, other samples with the same item are no negatives.
    log_share
        Log of the share of samples that have this item. A popular item is a negative more often than others; with this
        subtracted from the scores while training, the plain dot product ranks by how likely an item is.
    """
    if item_id is None and log_share is not None:
        raise GraphError("in_batch_softmax with log_share needs item_id too")
    given = tuple(one for one in (item_id, log_share) if one is not None)
    return build("in_batch_softmax", user, item, *given, name=name, temperature=temperature)


def multi_logloss(logits: Tensor, labels: Tensor, *, name: str | None = None) -> Tensor:
    """Sum over tasks of the mean binary cross entropy; both ``(tasks,)``."""
    return build("multi_logloss", logits, labels, name=name)
