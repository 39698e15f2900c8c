"""What crosses between stages of a batch: tensors by name, and what comes back for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.runtime.batch.job import Job

__all__ = ["StageOutcome", "add_gradients", "needs_behind"]

F32 = npt.NDArray[np.float32]


@dataclass(eq=False)
class StageOutcome:
    """What a stage gives back: gradients of what it was fed, dense gradients by stage, the loss, the prediction.

    ``kept`` are the stages whose dense gradient the holder of their parameters has already; where that has some of
    them only, all came back as well.
    """

    gradients: dict[str, Any] = field(default_factory=dict)
    dense: dict[int, F32] = field(default_factory=dict)
    loss: float = 0.0
    prediction: Any = None
    kept: tuple[int, ...] = ()


def needs_behind(job: Job, index: int) -> tuple[str, ...]:
    """Return the tensors that stages behind ``index`` need from it or from before it."""
    made: set[str] = set()
    needed: dict[str, None] = {}
    for ops in job.stages[index + 1 :]:
        scope = job.scope(ops)
        needed |= dict.fromkeys(name for name in scope.feeds if name not in made)
        made |= set(scope.outputs)
    return tuple(needed)


def add_gradients(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add gradients by name: a tensor that several stages read gets the sum."""
    for name, gradient in more.items():
        into[name] = into[name] + gradient if name in into else gradient
