"""A cut: a moment at which nothing was in flight, and what the run needs to go on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Cut"]


@dataclass(frozen=True, slots=True)
class Cut:
    """The driver's part of a cut; each host's part (rows and :meth:`HostState.to_json`) lies beside it.

    Attributes
    ----------
    number
        Grows; 0 is the state the run started from (fresh tables or a loaded model).
    pass_
        The pass that was under way.
    progress
        What :meth:`progress` of the run's book returned: which Splits were done, where the others stood.
    mode
        The mode as JSON: unit boundaries must be the same when the run goes on.
    """

    number: int = 0
    pass_: int = 0
    progress: Mapping[str, Any] = field(default_factory=dict)
    mode: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the cut as a JSON object."""
        return {"number": self.number, "pass": self.pass_, "progress": dict(self.progress), "mode": dict(self.mode)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Cut:
        """Inverse of :meth:`to_json`."""
        return cls(value["number"], value["pass"], value["progress"], value["mode"])
