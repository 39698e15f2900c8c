"""A run in progress: the loop that both engines turn, and what can be done to the tables between two of its batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Protocol, TypeVar

from heterps.data import Dataset
from heterps.errors import ClusterError, RunError
from heterps.protocol.run.found import FoundRun
from heterps.protocol.run.spec import Phase
from heterps.protocol.run.state import RunState
from heterps.protocol.words.events import CutAsked, RestAsked, RestOver
from heterps.runtime.ahead import told
from heterps.runtime.batch.counts import Counts
from heterps.runtime.batch.job import Job
from heterps.runtime.config import settings
from heterps.runtime.cuts.checkpoints import Keeper
from heterps.runtime.report.news import ReportNews
from heterps.runtime.report.progress import Progress
from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.driver import Carrier, Driver
from heterps.runtime.run.watchdog import Watchdog

__all__ = ["Training", "Workers"]

_T = TypeVar("_T")
_TRIES = 3
_LEAVING_S = 5.0  # for batches under way, when somebody leaves
_log = logging.getLogger("heterps")


class Workers(Carrier, Protocol):
    """A carrier, and what the loop asks of it besides."""

    tick_s: float
    """How long to wait for an event before looking around; 0 where attempts need the calling thread."""

    def watch(self, waiting_for: Callable[[], tuple[str, ...]]) -> None:
        """Raise if what the run waits for stays away for too long."""

    def look_at(self, run: RunState) -> None:
        """Tell the run of workers that are far behind the others."""

    def pump(self) -> bool:
        """Let attempts do what needs this thread, raise what they raised; False if there was nothing."""

    def stacks(self) -> str:
        """Say what threads are doing, here and on workers."""

    def stalled(self) -> None:
        """Nothing moved: raise if that cannot change by itself."""

    def recount(self) -> Counts:
        """Return what was applied, up to now."""

    def counts(self) -> Counts:
        """Return what was applied, as collected last."""

    def peek(self) -> dict[str, Any]:
        """Return the watched tensors of a batch that was computed lately."""

    def ready_to_report(self) -> bool:
        """Ask for what a report needs; whether it is there, or was waited for long enough."""

    def collect(self, reporter: Reporter, exactly: bool = False) -> None:
        """Give the reporter what was measured since the last call; exactly: up to now, and however long it takes."""


class Training:
    """One run, from its first batch to its last; belongs to the thread that iterates over :meth:`reports`.

    Parameters
    ----------
    job, dataset, epochs
        What is trained, on what, how often.
    carrier, arrivals
        Carries out; what becomes of it arrives there.
    keeper
        Cuts of the run.
    found
        Where the run is, if its tables outlived their driver.
    retries
        See :class:`~heterps.protocol.run.spec.RunSpec`.
    """

    def __init__(
        self,
        job: Job,
        dataset: Dataset,
        epochs: int,
        carrier: Workers,
        arrivals: Arrivals,
        keeper: Keeper,
        found: FoundRun | None = None,
        **retries: int,
    ) -> None:
        self._carrier, self._rate = carrier, job.rate
        self._keeper, self._first, self._rests = keeper, keeper.first, 0
        spec = job.spec(keeper.first + epochs, final_cut=keeper.writes, **retries)
        splits = partial(dataset.splits, seed=job.model.seed)
        base, life = keeper.base, keeper.life
        self.driver = Driver(spec, carrier, arrivals, splits, where=dataset.where, cut=base, life=life, found=found)
        self._epoch = self.pass_ - self._first  # the ends of passes before a cut were reported by an earlier run
        self.began = False
        """Whether every host had its tables at some time."""
        self._ended: list[Progress] = []  # last reports of passes, to be yielded
        self._watchdog = Watchdog(settings().progress_s, carrier.stacks)
        self._reporter = Reporter(epochs, job.metrics, keeper.counted_before(carrier.recount()))

    def reports(self, report_s: float) -> Iterator[Progress]:
        """Train, yielding Progress so often and at the end."""
        try:
            yield from self._reports(report_s)
        except GeneratorExit:
            self._drain()
            raise
        except RunError:
            self._carrier.recount()  # what the tables hold now is still of use
            raise

    def settle(self) -> None:
        """Have the shard hosts hold all that was trained so far: what is all-reduced they get when nothing is in
        flight.
        """
        if self.driver.state.spec.group and not self.driver.finished:
            self.at_rest(lambda: None)

    def _reports(self, report_s: float) -> Iterator[Progress]:
        reporter, carrier, news = self._reporter, self._carrier, ReportNews(report_s)
        while not self.driver.finished:
            self._turn()
            while self._ended:
                yield self._watched(self._ended.pop(0))
            if not self.driver.finished and reporter.due(report_s) and carrier.ready_to_report():
                carrier.collect(reporter)
                if news.is_in(progress := self._progress(self._epoch + 1)):
                    yield self._watched(progress)
        carrier.collect(reporter, exactly=True)
        yield self._watched(self._progress(reporter.epochs, done=True))

    def _drain(self) -> None:
        """Somebody leaves the loop: let the batches under way be applied everywhere, if that does not take long.

        However long it takes where parameters are all-reduced: without it hosts have rows of batches whose dense
        parameters they lack.
        """
        self._rests += 1
        reduced = self.driver.state.spec.group
        rest, until = self._rests, inf if reduced else monotonic() + _LEAVING_S
        with nullcontext() if reduced else suppress(Exception):  # it is left either way
            self.driver.handle(RestAsked(rest))
            while not self.driver.finished and self.driver.resting != rest and monotonic() < until:
                if self.returning is not None:
                    return
                self._turn()

    def _progress(self, epoch: int, **ends: bool) -> Progress:
        self._reporter.failed_cuts = self.driver.failed_cuts
        fleet = self.driver.state.fleet
        progress = self._reporter.progress(self._carrier.counts(), epoch, **ends)
        return replace(
            progress,
            rate=self._rate,
            cut=self._keeper.newest,
            unprotected=fleet.unprotected,
            together=fleet.together,
            run_twice=self.driver.state.run_twice,
            moves=self.driver.moves.taken(),
            compiling="" if progress.samples else told(),
        )

    def _watched(self, progress: Progress) -> Progress:
        return replace(progress, fetched=self._carrier.peek())

    @property
    def bad_streak(self) -> int:
        """How many batches, up to the last one counted, had a loss that is no finite number."""
        return self._carrier.counts().bad_streak

    @property
    def succeeded(self) -> bool:
        """Whether every batch was trained, and the last cut made where one is wanted."""
        return self.driver.state.phase is Phase.FINISHED

    @property
    def returning(self) -> int | None:
        """The cut that hosts are loading, 0 for what the run began with; None if every host has its tables."""
        return None if self.driver.state.fleet.ready else self.driver.state.cut.number

    @property
    def pass_(self) -> int:
        """Number of the pass that is being trained."""
        return self.driver.state.book.pass_

    def _turn(self) -> None:
        carrier, driver = self._carrier, self.driver
        carrier.watch(driver.state.waiting_for)
        carrier.look_at(driver.state)
        moved = driver.step(carrier.tick_s)
        self.began |= driver.state.fleet.ready
        epoch = self.pass_ - self._first
        if epoch != self._epoch:  # before the first batch of the new pass is computed where this thread computes it
            carrier.collect(self._reporter, exactly=True)
            if epoch > self._epoch and not driver.finished:  # that of the last pass is the last report of all
                self._ended.append(self._progress(self._epoch + 1, epoch_done=True))
            self._epoch = epoch
            self._reporter.next_epoch()
        moved |= carrier.pump()
        if self._keeper.is_due():
            driver.handle(CutAsked())
        if not moved and not driver.finished:
            carrier.stalled()
        self._watchdog.look(driver.state)

    def at_rest(self, act: Callable[[], _T], changes: bool = False) -> _T:
        """Do something with all shard hosts while nothing is in flight, then let the run go on.

        Hosts are asked one after another, so without a rest each would show another moment of the run. If one is lost
        meanwhile the run returns to its last cut, and it is done again from there.
        """
        for left in reversed(range(_TRIES)):
            try:
                done = self._rest(act, changes)
                if changes:
                    self._keeper.owe()
                return done
            except ClusterError as error:
                if not left or self.driver.finished:
                    raise
                _log.warning("a shard host did not answer while the run was at rest, trying again: %s", error)
        raise AssertionError("unreachable")

    def _rest(self, act: Callable[[], _T], changes: bool) -> _T:
        self._rests += 1
        rest = self._rests
        self.driver.handle(RestAsked(rest))
        try:
            while not self.driver.finished and self.driver.resting != rest:
                self._turn()
            return act()
        finally:
            self.driver.handle(RestOver(rest, changes))  # also when it failed: some hosts may have changed
