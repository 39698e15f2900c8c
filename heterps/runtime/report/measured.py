"""Metrics over a dataset, from what was measured of each Split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heterps.metrics import Metric, State
from heterps.runtime.batch.inference import Inferred
from heterps.runtime.report.progress import BAD_ROWS

__all__ = ["Measured"]


@dataclass(frozen=True)
class Measured:
    """Results by name, ``bad_rows`` among them where there were any, and how many rows they are of.

    ``states`` are what results were made of: they merge with those of other data.
    """

    results: dict[str, Any]
    samples: int
    states: Mapping[str, State] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, parts: Iterable[Inferred], metrics: Sequence[Metric]) -> Measured:
        """Merge the Splits in their order."""
        states, samples, bad = {one.name: one.init() for one in metrics}, 0, 0
        for part in parts:
            states = {one.name: one.merge(states[one.name], part.states[one.name]) for one in metrics}
            samples, bad = samples + part.samples, bad + len(part.bad)
        results = {one.name: one.result(states[one.name]) for one in metrics}
        return cls(results | ({BAD_ROWS: bad} if bad else {}), samples, states)
