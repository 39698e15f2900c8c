"""What a training carries from pass to pass beside its tables: the learning rate's factor, and notes of callbacks.

Each run, which is one pass where there is a validation, takes it when it begins and writes it into every cut: one that
is resumed begins with what the cut has. What a callback decides at the end of a pass holds from the next run on; if the
training dies before that, the pass's end comes again, with the same notes, and so does the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Carried"]


@dataclass(frozen=True)
class Carried:
    """A plain value, as JSON can say it.

    Parameters
    ----------
    rate
        Learning rates of all rules are multiplied by this.
    notes
        Of callbacks, by name.
    """

    rate: float = 1.0
    notes: Mapping[str, Any] = field(default_factory=dict)

    def noted(self, name: str, note: Any) -> Carried:
        """Return the same with a note."""
        return Carried(self.rate, {**self.notes, name: note})

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"rate": self.rate, "notes": dict(self.notes)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Carried:
        """Inverse of :meth:`to_json`; cuts of earlier versions say nothing."""
        return cls() if value is None else cls(float(value["rate"]), dict(value["notes"]))
