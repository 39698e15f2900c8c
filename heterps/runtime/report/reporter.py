"""From counts and metric states to Progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from heterps.metrics import Metric, State
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.devices import ChosenDevice
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.kept_metrics import merge_states
from heterps.runtime.batch.phases import total
from heterps.runtime.report.occupancy import HeldTable, Occupancy
from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.runtime.report.progress import Progress

__all__ = ["Reporter"]


class Reporter:
    """Makes Progress values; knows what the last one said.

    Parameters
    ----------
    epochs
        Passes of this run.
    metrics
        What is measured while training.
    before
        Counts at the start of the run: hosts may have trained before.
    """

    def __init__(self, epochs: int, metrics: Sequence[Metric], before: Counts) -> None:
        self.epochs = epochs
        self.metrics = {metric.name: metric for metric in metrics}
        self._bad_rows: dict[tuple[int, int], int] = {}  # by pass and Split: whoever reads one again finds the same
        self._bad_row = ""
        self.failed_cuts = 0
        self._phases: dict[str, dict[str, float]] = {}
        self._capacity: dict[str, float] = {}
        self._devices: dict[str, tuple[ChosenDevice, ...]] = {}
        self._exchange = Exchange()
        self._occupancy = Occupancy()
        self._told = PhaseProfile()
        self._states: dict[str, State] = {}
        self._before = self._last = before
        self._began = self._then = self._ticked = perf_counter()

    def add(
        self,
        pool: str,
        phases: Mapping[str, float],
        states: Mapping[str, State] | None = None,
        bad_rows: Mapping[tuple[int, int], int] | None = None,
        devices: Iterable[ChosenDevice] = (),
        exchange: Exchange | None = None,
        tables: Iterable[HeldTable] = (),
        queues: Mapping[str, Mapping[str, int]] | None = None,
        bad_row: str = "",
    ) -> None:
        """Take what a worker of a pool measured and exchanged since it was last asked, the bad rows it ever met by
        Split and one of them, what its programs compute on, what it holds and what waits there.
        """
        self._occupancy.add(tables, queues)
        self._exchange += exchange or Exchange()
        self._states = merge_states(self.metrics, self._states, states) if states else self._states
        self._phases[pool] = total((self._phases.get(pool, {}), phases))
        if told := {*self._devices.get(pool, ()), *devices}:
            self._devices[pool] = tuple(sorted(told, key=str))
        for split, count in (bad_rows or {}).items():
            self._bad_rows[split] = max(count, self._bad_rows.get(split, 0))
        self._bad_row = self._bad_row or bad_row

    def tick(self, threads: Mapping[str, int]) -> None:
        """Note that each pool had so many threads since the last call."""
        now = perf_counter()
        elapsed, self._ticked = now - self._ticked, now
        self._capacity = total((self._capacity, {pool: n * elapsed for pool, n in threads.items()}))

    def next_epoch(self) -> None:
        """Metrics start anew with every pass."""
        self._states = {}

    def due(self, every_s: float) -> bool:
        """Say whether the last report is that old."""
        return perf_counter() - self._then >= every_s

    def progress(self, counts: Counts, epoch: int, done: bool = False, epoch_done: bool = False) -> Progress:
        """Return how far the run is."""
        now = perf_counter()
        since, all_ = counts.since(self._last), counts.since(self._before)
        # What was trained since the last report; all of it where that is nothing, or the last word.
        lately = since.samples > 0 and not done
        basis = since if since.samples else all_
        speed = since.samples / (now - self._then) if lately else all_.samples / (now - self._began)
        self._last, self._then = counts, now
        profile = PhaseProfile(
            now - self._began, dict(self._phases), self._capacity, dict(self._devices), self._exchange
        )
        busy = (profile - self._told if lately else profile).busy
        self._told = profile
        return Progress(
            epoch=epoch,
            epochs=self.epochs,
            batches=all_.batches,
            samples=all_.samples,
            seconds=now - self._began,
            samples_per_s=speed,
            loss=basis.loss / basis.samples if basis.samples and not basis.bad_losses else float("nan"),
            metrics=self.results(),
            staleness=all_.staleness / all_.batches if all_.batches else 0.0,
            skipped=all_.skipped,
            bad_rows=sum(self._bad_rows.values()),
            bad_row=self._bad_row,
            bad_losses=all_.bad_losses,
            failed_cuts=self.failed_cuts,
            busy=busy,
            tables=self._occupancy.tables,
            queues=self._occupancy.take_queues(),
            profile=profile,
            epoch_done=epoch_done or done,
            done=done,
        )

    def results(self) -> dict[str, Any]:
        """Return the metrics of the pass so far."""
        return {name: self.metrics[name].result(state) for name, state in self._states.items()}
