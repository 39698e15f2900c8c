"""The accessor: counters of a row, its score, and what follows from them.

``score = (show - click) * nonclk_coeff + click * click_coeff``. A push adds shows and clicks, adds the score of what it
added to ``delta_score``, and sets ``unseen_days`` to 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import TableError
from heterps.fields import Finite, Found, Natural, check_fields
from heterps.tables.specs.initialisers import Initialiser
from heterps.tables.specs.registry import Registry
from heterps.tables.specs.rules import Rule

__all__ = ["ACCESSORS", "COUNTERS", "Accessor", "Counters", "CtrAccessor"]

F32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class Counters(NamedTuple):
    """The counters of many rows, one array each; ``live`` is 1 where the embedx part has values."""

    show: F32
    click: F32
    delta_score: F32
    unseen_days: F32
    live: F32


#: Words of a row that its counters take, in the order of :class:`Counters`.
COUNTERS = len(Counters._fields)
LIVE = Counters._fields.index("live")


@dataclass(frozen=True, kw_only=True)
class Accessor:
    """Base of all accessors; one of your own may override ``decay``, ``drop``, ``in_base`` and ``in_delta``.

    The score itself is what it is, two coefficients: compiled loops add it up with every push.
    ``heterps.testing.AccessorContract`` tests an accessor.

    Parameters
    ----------
    nonclk_coeff, click_coeff
        Weights of the score.
    embed
        Leading columns of the table that every row has (``w``); the others (``embedx``) get their first values when
        the score reaches ``embedx_threshold`` and read as zeros before.
    embedx_rule, embedx_init
        For those other columns, where they differ from the table's.
    """

    nonclk_coeff: Finite = 0.1
    click_coeff: Finite = 1.0
    embed: Natural = 1
    embedx_threshold: Finite = 10.0
    embedx_rule: Rule | None = None
    embedx_init: Initialiser | None = None

    def __init_subclass__(cls) -> None:
        if "score" in vars(cls):
            raise TableError(
                f"accessor {cls.__name__} has a score() of its own, which no push would go by: set nonclk_coeff and "
                "click_coeff, and put what else counts into drop, in_base and in_delta"
            )

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"accessor {type(self).__name__}")

    def score(self, show: F32, click: F32) -> F32:
        """Return the score of each row."""
        return (show - click) * np.float32(self.nonclk_coeff) + click * np.float32(self.click_coeff)

    def decay(self, c: Counters) -> Counters:
        """Return the counters after one round of ageing (part of shrink)."""
        return c

    def drop(self, c: Counters) -> Mask:
        """Say which rows shrink deletes, from decayed counters."""
        return np.zeros(len(c.show), np.bool_)

    def in_base(self, c: Counters) -> Mask:
        """Say which rows a base save holds."""
        return np.ones(len(c.show), np.bool_)

    def in_delta(self, c: Counters) -> Mask:
        """Say which rows a delta save holds."""
        return c.delta_score > 0

    def to_json(self) -> dict[str, Any]:
        """Return the accessor as plain data."""
        return ACCESSORS.to_json(self)

    @classmethod
    def from_found(cls, found: Found) -> Accessor:
        """Read an accessor where a document has one."""
        return ACCESSORS.from_json(found)


ACCESSORS: Registry[Accessor] = Registry("accessor")


@ACCESSORS.add
@dataclass(frozen=True, kw_only=True)
class CtrAccessor(Accessor):
    """The usual one for click logs.

    Parameters
    ----------
    base_threshold
        Base and delta saves hold rows with at least this score.
    delta_keep_days
        Base and delta saves hold rows that were unseen for at most so many days.
    delta_threshold
        A delta save holds rows with at least this delta score.
    decay_rate
        Shrink multiplies shows and clicks by it.
    delete_threshold, delete_after_unseen_days
        Shrink deletes rows with a smaller score, and rows unseen for more days.
    """

    base_threshold: Finite = 1.5
    delta_threshold: Finite = 0.25
    delta_keep_days: Finite = 16
    decay_rate: Finite = 0.98
    delete_threshold: Finite = 0.8
    delete_after_unseen_days: Finite = 30

    def decay(self, c: Counters) -> Counters:
        """Multiply shows and clicks by the decay rate."""
        rate = np.float32(self.decay_rate)
        return c._replace(show=c.show * rate, click=c.click * rate)

    def drop(self, c: Counters) -> Mask:
        """Drop rows with a low score or long unseen."""
        return (self.score(c.show, c.click) < self.delete_threshold) | (c.unseen_days > self.delete_after_unseen_days)

    def in_base(self, c: Counters) -> Mask:
        """Hold rows with a score worth serving that were seen of late."""
        return (self.score(c.show, c.click) >= self.base_threshold) & (c.unseen_days <= self.delta_keep_days)

    def in_delta(self, c: Counters) -> Mask:
        """Hold rows worth serving that changed enough of late."""
        return self.in_base(c) & (c.delta_score >= self.delta_threshold)
