"""What a run tells its user while it goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.report.history import History, Point
from heterps.runtime.report.occupancy import HeldTable
from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.svg import label
from heterps.writing import write_whole

__all__ = ["BAD_ROWS", "Progress"]

BAD_ROWS = "bad_rows"  # how evaluations call what they could not use


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Parameters
    ----------
    epoch, epochs
        The pass under way, from 1, and how many there will be.
    batches, samples
        Applied so far, each exactly once.
    seconds
        Since training began.
    samples_per_s
        Since the last report; in the last one, since training began.
    loss
        Mean per sample since the last report.
    metrics
        Over the current pass so far, on predictions made before each batch was trained on.
    staleness
        Mean number of pushes applied between a batch's pull and its push.
    rate
        What learning rates are multiplied by (:class:`~heterps.habits.reduce_on_plateau.ReduceOnPlateau`).
    skipped
        Rows left as they were because their gradient was not finite.
    bad_rows
        Rows of input that could not be used, each counted once a pass.
    bad_row
        One of them, with its file, line and reason; empty while there is none.
    bad_losses
        Batches whose loss was not a finite number; ``loss`` is NaN where there was one since the last report.
    failed_cuts
        Cuts that could not be written; the one before is still there.
    cut
        Folder of the last cut that this training completed; empty before the first.
    unprotected
        With replicas: shard hosts without a backup that could take over now.
    together
        With replicas: shard hosts whose backup is on the machine of its primary, so that both would be lost with it.
    run_twice
        Lanes or Splits that were run a second time because their worker was far behind the others.
    moves
        What came, went or moved since the last report, in words: workers, shard hosts, lanes.
    compiling
        Before the first batch: the loops that are compiled on this machine at the moment, in words.
    busy
        Share of its threads' time that each pool worked, over the same time as ``samples_per_s``.
    tables
        Rows and bytes of each table on each shard host, as told last.
    queues
        Batches, over all workers: ``read ahead``, ``in flight``, of these ``at stages``; and requests ``at hosts``.
    profile
        Where the time went since training began.
    epoch_done
        Whether this is the last report of its pass.
    done
        Whether this is the last report of all.
    valid
        Metrics on the validation data, in the last report of each pass; ``bad_rows`` among them if it has any.
    fetched
        Chosen tensors of a recent batch.
    history
        What this training has reported so far.
    """

    epoch: int
    epochs: int
    batches: int
    samples: int
    seconds: float
    samples_per_s: float
    loss: float
    metrics: Mapping[str, Any] = field(default_factory=dict)
    staleness: float = 0.0
    rate: float = 1.0
    skipped: int = 0
    bad_rows: int = 0
    bad_row: str = ""
    bad_losses: int = 0
    failed_cuts: int = 0
    cut: str = ""
    unprotected: int = 0
    together: int = 0
    run_twice: int = 0
    moves: tuple[str, ...] = ()
    compiling: str = ""
    busy: Mapping[str, float] = field(default_factory=dict)
    tables: tuple[HeldTable, ...] = ()
    queues: Mapping[str, int] = field(default_factory=dict)
    profile: PhaseProfile = field(default_factory=PhaseProfile)
    epoch_done: bool = False
    done: bool = False
    valid: Mapping[str, Any] = field(default_factory=dict)
    fetched: Mapping[str, Any] = field(default_factory=dict)
    history: History = field(default_factory=History, repr=False, compare=False)

    def point(self) -> Point:
        """Return the numbers of this report alone."""
        metrics, valid = (
            {name: float(value) for name, value in found.items() if isinstance(value, float)}
            for found in (self.metrics, self.valid)
        )
        return Point(self.samples, self.loss, metrics, valid, self.samples_per_s)

    def plot(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw the learning curve up to this report as an SVG, also to a file; a notebook shows a report as that."""
        from heterps.runtime.report.learning_curve import draw_curve

        drawn = draw_curve(self.history.until(self.samples), f"Epoch {self.epoch} of {self.epochs}")
        if path is not None:
            write_whole(path, drawn)
        return drawn

    def _repr_html_(self) -> str:
        return f"<p>{label(str(self))}</p>{self.plot()}"

    @property
    def exchange(self) -> Exchange:
        """What workers and shard hosts said to each other since training began."""
        return self.profile.exchange

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase, over all workers."""
        return self.profile.phases

    def __str__(self) -> str:
        if not self.samples:
            waits = self.compiling or "no batch trained yet"
            parts = [f"epoch {self.epoch}/{self.epochs}", waits, *_bad(self.bad_rows), *self.moves]
            return " | ".join(parts)
        parts = [
            f"epoch {self.epoch}/{self.epochs}",
            f"{self.samples:,} samples",
            f"{self.samples_per_s:,.0f}/s",
            f"loss {self.loss:.4f}",
            *_measured(self.metrics),
            *(f"valid {text}" for text in _measured(self.valid)),
        ]
        if self.busy:
            parts.append("busy " + ", ".join(f"{pool} {100 * share:.0f} %" for pool, share in self.busy.items()))
        if emulated := self.profile.emulated:
            parts.append(f"emulated: {', '.join(emulated)}")
        if self.staleness:
            parts.append(f"staleness {self.staleness:.1f}")
        if self.rate != 1.0:
            parts.append(f"rates x {self.rate:.4g}")
        if told := self.exchange.told(self.samples):
            parts.append(told)
        if self.skipped:
            parts.append(f"{self.skipped} rows skipped")
        parts += [*_bad(self.bad_rows), *(f"valid {text}" for text in _bad(self.valid.get(BAD_ROWS, 0)))]
        if self.bad_losses:
            parts.append(f"{self.bad_losses} batches without a finite loss")
        if self.failed_cuts:
            parts.append(f"{self.failed_cuts} cuts failed")
        if self.unprotected:
            parts.append(f"{self.unprotected} shard host{'s' if self.unprotected > 1 else ''} without a backup")
        if self.together:
            parts.append("backups on the machine of their primary")
        if self.run_twice:
            parts.append(f"{self.run_twice} run twice")
        parts += self.moves
        return " | ".join(parts)


def _bad(count: int) -> list[str]:
    return [f"{count:,} bad row{'s' if count > 1 else ''}"] if count else []


def _measured(metrics: Mapping[str, Any]) -> list[str]:
    """Metrics that are one number; what is not defined yet (a pass has just begun) is left out."""
    return [f"{name} {value:.4f}" for name, value in metrics.items() if isinstance(value, float) and value == value]
