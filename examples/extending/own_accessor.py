"""An accessor of your own: rows lose half their weight in so many days, and go when too little is left.

An accessor decides what a row of a table is worth: what ageing does to its counters, which rows ``session.shrink()``
deletes, which ones a base or delta save holds. Decisions are masks over many rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterps.tables import ACCESSORS, Accessor


@ACCESSORS.add
@dataclass(frozen=True, kw_only=True)
class HalfLife(Accessor):
    """Shows and clicks halve every ``days``; a row stays while its score is at least ``keep``."""

    days: float = 7.0
    keep: float = 0.5
    serve_days: float = 14.0

    def decay(self, c):
        """Age counters by a day; called once by each shrink."""
        rate = np.float32(0.5 ** (1 / self.days))
        return c._replace(show=c.show * rate, click=c.click * rate)

    def drop(self, c):
        """Say which rows go, from aged counters."""
        return self.score(c.show, c.click) < self.keep

    def in_base(self, c):
        """Say which rows are served: those seen of late."""
        return c.unseen_days <= self.serve_days

    def in_delta(self, c):
        """Say which of them a delta brings: those that changed since the last."""
        return self.in_base(c) & (c.delta_score > 0)
