"""Of very many actors some are asked for each report, the next ones each time."""

from collections import Counter
from concurrent.futures import Future
from typing import Any, cast

import pytest

from heterps.runtime.report.reporter import Reporter
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.gathering import ReportGathering
from heterps.runtime.run.line import ActorLine


class Line:
    """The way to an actor that answers at once."""

    def __init__(self, number: int, asked: Counter[int]) -> None:
        self.worker, self._number, self._asked = f"io-{number}", number, asked
        self.made: Future[None] = Future()
        self.made.set_result(None)

    def ask(self, method: str) -> Future[Any]:
        self._asked[self._number] += 1
        counts = {"batches": 10 * self._number + self._asked[self._number]}
        answer: Future[Any] = Future()
        answer.set_result(counts if method == "counts" else {"phases": {}, "counts": counts})
        return answer


class Reports:
    """A gathering of so many actors, and whom it asked."""

    def __init__(self, actors: int, counter: int | None = None) -> None:
        self.asked: Counter[int] = Counter()
        lines = [("io", cast(ActorLine, Line(n, self.asked))) for n in range(actors)]
        counts = None if counter is None else lines[counter][1]
        self.gathering = ReportGathering(lambda: lines, list, lambda: counts, {}, lambda *lost: None, Arrivals())
        self.reporter = Reporter(1, (), self.gathering.counts)

    def report(self, exactly: bool = False) -> set[int]:
        """Gather one; return who was asked for it."""
        self.asked.clear()
        if not exactly:
            assert self.gathering.ready()
        self.gathering.collect(self.reporter, exactly)
        return set(self.asked)


def test_all_are_asked_where_they_are_few() -> None:
    reports = Reports(200)
    assert reports.report() == reports.report() == set(range(200))


@pytest.mark.parametrize("actors", [257, 600, 1024])
def test_of_many_some_are_asked_and_all_in_turn(actors: int) -> None:
    reports = Reports(actors)
    asked = [reports.report() for _ in range(-(-actors // 256))]
    assert all(len(each) <= 256 for each in asked)
    assert set().union(*asked) == set(range(actors))


def test_at_the_end_all_are_asked() -> None:
    reports = Reports(600)
    reports.report()
    assert reports.report(exactly=True) == set(range(600))


@pytest.mark.parametrize("actors", [3, 600])
def test_who_counts_is_asked_once_for_a_report_and_nobody_else_is_believed(actors: int) -> None:
    reports = Reports(actors, counter=2)
    for exactly in (False, False, True):
        assert 2 in reports.report(exactly)
        assert reports.asked[2] == 1
        assert reports.gathering.counts.batches == 21
    assert reports.gathering.recount().batches == 22
