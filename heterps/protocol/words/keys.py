"""The batch key: the name of one batch, the same for every attempt to train it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BatchKey"]


class BatchKey(NamedTuple):
    """Pass over the data, Split within the pass, number of the batch within the Split (all from 0).

    It depends on the seed and the data only, never on which worker runs it or how often it was tried, so "has this key
    been applied?" is a well-defined question on every shard host.
    """

    pass_: int
    split: int
    n: int
