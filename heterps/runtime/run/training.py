"""A run in progress: the loop that both engines turn, and what can be done to the tables between two of its batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from heterps.data import Dataset
from heterps.errors import ClusterError
from heterps.protocol.words.events import RestAsked, RestOver
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.job import Job
from heterps.runtime.cuts.checkpoints import Keeper
from heterps.runtime.report.progress import Progress
from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.driver import Carrier, Driver

__all__ = ["Training", "Workers"]

_T = TypeVar("_T")
_TRIES = 3
_log = logging.getLogger("heterps")


class Workers(Carrier, Protocol):
    """A carrier, and what the loop asks of it besides."""

    tick_s: float
    """How long to wait for an event before looking around; 0 where attempts need the calling thread."""

    def watch(self) -> None:
        """Tell the run which workers came and went, if it is time to look."""

    def pump(self) -> bool:
        """Let attempts do what needs this thread, raise what they raised; False if there was nothing."""

    def stalled(self) -> None:
        """Nothing moved: raise if that cannot change by itself."""

    def counts(self) -> Counts:
        """Return what was applied so far."""

    def peek(self) -> dict[str, Any]:
        """Return the watched tensors of a batch that was computed lately."""

    def collect(self, reporter: Reporter) -> None:
        """Give the reporter what was measured since the last call."""


class Training:
    """One run, from its first batch to its last; belongs to the thread that iterates over :meth:`reports`.

    Parameters
    ----------
    job, dataset, epochs
        What is trained, on what, how often.
    carrier
        Carries out; its ``driver`` is set here.
    keeper
        Cuts of the run.
    retries
        See :class:`~heterps.protocol.run.spec.RunSpec`.
    """

    def __init__(self, job: Job, dataset: Dataset, epochs: int, carrier: Any, keeper: Keeper, **retries: int) -> None:
        self._carrier: Workers = carrier
        self._keeper, self._first, self._epoch, self._rests = keeper, keeper.first, 0, 0
        spec = job.spec(keeper.first + epochs, final_cut=keeper.writes, **retries)
        splits = partial(dataset.splits, seed=job.model.seed)
        self.driver = carrier.driver = Driver(spec, carrier, splits, cut=keeper.base, life=keeper.life)
        self._reporter = Reporter(epochs, job.metrics, carrier.counts())

    def reports(self, report_s: float) -> Iterator[Progress]:
        """Train, yielding Progress so often and at the end."""
        reporter, carrier = self._reporter, self._carrier
        while not self.driver.finished:
            self._turn()
            if not self.driver.finished and reporter.due(report_s):
                carrier.collect(reporter)
                yield self._watched(reporter.progress(carrier.counts(), self._epoch + 1))
        carrier.collect(reporter)
        yield self._watched(reporter.progress(carrier.counts(), reporter.epochs, done=True))

    def _watched(self, progress: Progress) -> Progress:
        return replace(progress, fetched=self._carrier.peek())

    @property
    def pass_(self) -> int:
        """Number of the pass that is being trained."""
        return self.driver.state.book.pass_

    def _turn(self) -> None:
        carrier, driver = self._carrier, self.driver
        carrier.watch()
        moved = driver.step(carrier.tick_s)
        epoch = self.pass_ - self._first
        if epoch != self._epoch:  # before the first batch of the new pass is computed where this thread computes it
            self._epoch = epoch
            carrier.collect(self._reporter)
            self._reporter.next_epoch()
        moved |= carrier.pump()
        self._keeper.ask(driver.handle)
        if not moved and not driver.finished:
            carrier.stalled()

    def at_rest(self, act: Callable[[], _T]) -> _T:
        """Do something with all shard hosts while nothing is in flight, then let the run go on.

        Hosts are asked one after another, so without a rest each would show another moment of the run. If one is lost
        meanwhile the run returns to its last cut, and it is done again from there.
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._rest(act)
            except ClusterError as error:
                if not left or self.driver.finished:
                    raise
                _log.warning("a shard host did not answer while the run was at rest, trying again: %s", error)
        raise AssertionError("unreachable")

    def _rest(self, act: Callable[[], _T]) -> _T:
        self._rests += 1
        rest = self._rests
        self.driver.handle(RestAsked(rest))
        try:
            while not self.driver.finished and self.driver.resting != rest:
                self._turn()
            return act()
        finally:
            self.driver.handle(RestOver(rest))
