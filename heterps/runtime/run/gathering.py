"""What a run's actors have measured, gathered for reports: late answers count in the next report, and the run's thread
goes on while it waits for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from time import monotonic
from typing import Any

from heterps.errors import ClusterError
from heterps.runtime.batch.counts import Counts
from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.line import ActorLine

__all__ = ["ReportGathering"]

_SOON_S = 0.5  # for answers that a report in between waits for
_MOST = 256  # actors that are asked for one; what the others have measured is in a later report


class ReportGathering:
    """Asks actors for what they measured.

    Parameters
    ----------
    lines
        Returns pool and line of every actor of the run.
    readers
        Returns the lines of io workers.
    counter
        Returns the line of the shard host that counts: every batch is pushed to every host, so one is enough.
    fetch
        Tensors to watch, by name.
    lost
        ``lost(worker, error)`` for one that does not answer.
    arrivals
        Wakes the run's thread when an answer is there.
    """

    def __init__(
        self,
        lines: Callable[[], Iterable[tuple[str, ActorLine]]],
        readers: Callable[[], Iterable[ActorLine]],
        counter: Callable[[], ActorLine | None],
        fetch: Mapping[str, str],
        lost: Callable[[str, ClusterError], None],
        arrivals: Arrivals,
    ) -> None:
        self.counts = Counts()
        """What was applied, as told last; while the host that counts is lost, what it said before."""
        self.peeked: dict[str, Any] = {}
        """Watched tensors of a batch that was computed lately."""
        self._lines, self._readers, self._counter, self._fetch, self._lost = lines, readers, counter, dict(fetch), lost
        self._measures: dict[ActorLine, tuple[str, Future[Any]]] = {}  # asked for and not answered, with their pool
        self._looks: dict[ActorLine, Future[Any]] = {}  # the same, for watched tensors
        self._count: tuple[ActorLine, Future[Any]] | None = None  # the same, for counts
        self._arrivals = arrivals
        self._asked_s: float | None = None  # when actors were asked for the report that is being gathered
        self._turn = 0  # which actors are asked next, where there are too many

    def ready(self) -> bool:
        """Ask, if that was not done yet; whether all have answered, or one has had long enough.

        The run's thread must not wait for an actor: the word that its worker is lost is in the same thread's inbox.
        """
        if self._asked_s is None:
            self._ask()
            self._asked_s = monotonic()
            for answer in self._open():
                answer.add_done_callback(lambda _: self._arrivals.post(_nothing))
        if all(answer.done() for answer in self._open()) or monotonic() - self._asked_s > _SOON_S:
            self._asked_s = None
            return True
        return False

    def collect(self, reporter: Reporter, exactly: bool) -> None:
        """Give the reporter what has been told; exactly: what was measured up to now, however long that takes."""
        if exactly:
            self._wait()  # what was asked before now may have been answered before the last batch
            self._take(reporter)
            self._ask(most=None)
            self._wait()
        self._take(reporter)

    def last_words(self, pool: str, line: ActorLine) -> None:
        """Ask an actor that is about to be closed; what it says is in the next report."""
        if line not in self._measures:
            self._measures[line] = pool, line.ask("collect")

    def recount(self) -> Counts:
        """Return what was applied, up to now."""
        self._wait()
        self._take_counts()
        self._ask_counts()
        self._wait()
        self._take_counts()
        return self.counts

    def _ask(self, most: int | None = _MOST) -> None:
        for pool, line in self._in_turn(list(self._lines()), most):
            if line.made.done() and line not in self._measures:
                self._measures[line] = pool, line.ask("collect")
        for line in self._readers() if self._fetch else ():
            if line.made.done() and line not in self._looks:
                self._looks[line] = line.ask("peek", self._fetch)
        if self._counter() not in self._measures:  # else it says what it has counted with what it has measured
            self._ask_counts()

    def _in_turn(self, lines: list[tuple[str, ActorLine]], most: int | None) -> list[tuple[str, ActorLine]]:
        """Return so many lines, the next ones each time."""
        if most is None or len(lines) <= most:
            return lines
        first = self._turn % len(lines)
        self._turn = first + most
        return (lines + lines)[first : first + most]

    def _ask_counts(self) -> None:
        line = self._counter()
        if line is not None and line.made.done() and self._count is None:
            self._count = line, line.ask("counts")

    def _open(self) -> list[Future[Any]]:
        asked = [answer for _, answer in self._measures.values()] + list(self._looks.values())
        return asked if self._count is None else [*asked, self._count[1]]

    def _wait(self) -> None:
        """Wait for all that was asked; every call has a limit of its own."""
        wait(self._open())

    def _take(self, reporter: Reporter) -> None:
        for line, (pool, answer) in list(self._measures.items()):
            if answer.done():
                del self._measures[line]
                found = self._answer(line, answer) or {}
                counts = found.pop("counts", None)
                if counts is not None and line is self._counter():
                    self.counts = Counts(**counts)
                if found:
                    reporter.add(pool, **found)
        for line, answer in list(self._looks.items()):
            if answer.done():
                del self._looks[line]
                self.peeked = self._answer(line, answer) or self.peeked
        self._take_counts()

    def _take_counts(self) -> None:
        if self._count is not None and self._count[1].done():
            line, answer = self._count
            self._count = None
            found = self._answer(line, answer)
            self.counts = self.counts if found is None else Counts(**found)

    def _answer(self, line: ActorLine, answer: Future[Any]) -> Any:
        """Return what an actor said; one that is lost has nothing to add."""
        try:
            return answer.result()
        except ClusterError as error:
            self._lost(line.worker, error)
            return None


def _nothing() -> None:
    """Nothing follows from the answer but that the run's thread looks."""
