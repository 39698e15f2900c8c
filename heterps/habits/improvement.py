"""Whether a measured value got better, and how long ago it last did."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from heterps.errors import RunError
from heterps.runtime.cuts.carried import Carried
from heterps.runtime.report.progress import Progress

__all__ = ["Best", "Watched"]

#: Metrics of which more is better; of all others less is.
RISING = frozenset({"auc", "exact_auc", "gauc", "accuracy", "acc1", "acc5"})


@dataclass(frozen=True)
class Watched:
    """A number among those of a report.

    Parameters
    ----------
    name
        Of a metric, or ``"loss"``. One of the validation where there is one, else of the training.
    rising
        Whether more is better; None: as is known of the metric.
    """

    name: str
    rising: bool | None = None

    @property
    def is_rising(self) -> bool:
        """Whether more is better."""
        return self.name in RISING if self.rising is None else self.rising

    def of(self, progress: Progress) -> float:
        """Return the value in a report.

        Raises
        ------
        RunError
            The report has none: says which there are.
        """
        found: dict[str, Any] = {"loss": progress.loss, **progress.metrics, **progress.valid}
        value = found.get(self.name)
        if not isinstance(value, float | int):
            numbers = ", ".join(name for name, each in found.items() if isinstance(each, float | int))
            raise RunError(
                f"no metric {self.name!r} is measured at the end of a pass; there are {numbers}. "
                "Name it in launch(metrics=[...]), or give train(valid=...)"
            )
        return float(value)


@dataclass
class Best:
    """The best value so far, and how many came after it without a better one.

    Parameters
    ----------
    rising
        Whether more is better.
    least
        What a value must be better by to count.
    """

    rising: bool
    least: float = 0.0
    value: float = field(default=math.nan, init=False)
    since: int = field(default=0, init=False)

    @classmethod
    def recalled(cls, carried: Carried, name: str, rising: bool, least: float = 0.0) -> Best:
        """Return what a training has noted under a name, or a new one: a training that is resumed goes on with it."""
        best = cls(rising, least)
        if name in carried.notes:
            value, best.since = carried.notes[name]
            best.value = math.nan if value is None else value
        return best

    def noted(self, carried: Carried, name: str) -> Carried:
        """Inverse of :meth:`recalled`; JSON has no word for what is no number."""
        return carried.noted(name, [None if math.isnan(self.value) else self.value, self.since])

    def take(self, value: float) -> bool:
        """Take the next value; say whether it is the best so far. One that is no number never is."""
        sign = 1.0 if self.rising else -1.0
        if not math.isnan(value) and (math.isnan(self.value) or sign * (value - self.value) > self.least):
            self.value, self.since = value, 0
            return True
        self.since += 1
        return False
