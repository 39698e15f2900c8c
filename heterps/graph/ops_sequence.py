"""Model-building functions over ragged histories."""

from __future__ import annotations

from collections.abc import Sequence

import heterps.graph.builtin_sequence  # noqa: F401  (registers the kinds)
from heterps.graph.tensor import Tensor, build

__all__ = ["attention", "sequence_last", "sequence_mean", "sequence_sum"]


def sequence_mean(history: Tensor, *, name: str | None = None) -> Tensor:
    """Mean of each sample's list of vectors; zero for an empty list."""
    return build("sequence_pool", history, name=name, pooling="mean")


def sequence_sum(history: Tensor, *, name: str | None = None) -> Tensor:
    """Sum of each sample's list of vectors."""
    return build("sequence_pool", history, name=name, pooling="sum")


def sequence_last(history: Tensor, *, name: str | None = None) -> Tensor:
    """Last vector of each sample's list; zero for an empty list."""
    return build("sequence_pool", history, name=name, pooling="last")


def attention(
    query: Tensor,
    history: Tensor,
    *,
    hidden: Sequence[int] = (36,),
    normalise: bool = False,
    name: str | None = None,
) -> Tensor:
    """Weighted sum of a history's vectors, each weight a function of the query and that vector.

    Parameters
    ----------
    query
        ``(dim,)``: the candidate.
    history
        Ragged ``(dim,)``: ``ops.lookup`` of ragged ids without pooling.
    hidden
        Widths of the small network (sigmoid units) that scores ``[q, k, q - k, q * k]``, as in DIN; ``()`` scores by
        ``q k / sqrt(dim)`` instead.
    normalise
        Whether the weights of a sample are passed through a softmax. DIN does not, to keep how strong an interest is.
    """
    return build("attention", query, history, name=name, hidden=tuple(hidden), normalise=normalise)
