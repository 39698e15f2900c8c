"""What a stream tells of each pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heterps.streaming.alarm import Rung
from heterps.streaming.measures import Measure

__all__ = ["PassReport"]


@dataclass(frozen=True)
class PassReport:
    """A pass, after all that came with it.

    Parameters
    ----------
    sequence
        Its number, from 1; those that were passed over count too.
    day, name
        Of the pass.
    state
        ``trained``; ``late``: trained, though its day had ended; ``empty``: there were no rows; or why it was passed
        over: ``missing``, ``skipped late``, ``unreadable``.
    rows, bad_rows
        Trained on; could not be used.
    loss
        Mean over the batches of training; NaN where nothing was trained. It is not in the log: its last digits depend
        on when reports came.
    measured, totals
        By metric and group (``("auc", "")``): of this pass, by the model as it was before, and of all up to it.
    alarms
        Those that began to hold.
    events
        What else was done: days that ended, what was saved.
    """

    sequence: int
    day: str
    name: str
    state: str
    rows: int = 0
    bad_rows: int = 0
    loss: float = float("nan")
    measured: Mapping[Measure, float] = field(default_factory=dict)
    totals: Mapping[Measure, float] = field(default_factory=dict)
    alarms: tuple[Rung, ...] = ()
    events: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"pass {self.sequence}" + "".join(f" {part}" for part in (self.day, self.name) if part)]
        parts.append(f"{self.rows:,} rows" if self.rows else self.state)
        parts += ["late"] if self.state == "late" else []
        parts += [f"{self.bad_rows:,} bad rows"] if self.bad_rows else []
        parts += [
            f"{name} {value:.4f}" + (f" (total {self.totals[name, group]:.4f})" if (name, group) in self.totals else "")
            for (name, group), value in self.measured.items()
            if not group
        ]
        return " | ".join((*parts, *self.events, *(f"ALARM {each}" for each in self.alarms)))
