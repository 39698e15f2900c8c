"""Parameters that a stage computes with, and how new they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heterps.device import array_namespace, is_host

__all__ = ["StageParams"]


@dataclass(eq=False)
class StageParams:
    """Parameters of a stage, and by shard host the mark of the state they have; fresh ones have none.

    They are here, or on the stage's device once they came from there.
    """

    flat: Any
    marks: dict[int, str] = field(default_factory=dict)
    changed: bool = True  # since they were last brought to where they are computed with

    def write(self, span: slice, values: Any) -> None:
        """Set some of them; all come from one place, the host or a device."""
        if is_host(self.flat) and not is_host(values):
            self.flat = array_namespace(values).empty(self.flat.shape, np.float32)
        elif is_host(values) and not is_host(self.flat):
            self.flat = np.empty(self.flat.shape, np.float32)
        self.flat[span] = values
        self.changed = True
