from __future__ import annotations

from typing import Any

from heterps.runtime.report.news import ReportNews
from heterps.runtime.report.progress import Progress


def report(seconds: float, **said: Any) -> Progress:
    return Progress(1, 1, 0, said.pop("samples", 0), seconds, 0.0, 0.0, **said)


def test_before_the_first_batch_the_same_is_said_seldom() -> None:
    news = ReportNews(1.0)
    reports = [report(float(second), compiling="compiling gather") for second in range(1, 13)]
    assert [each.seconds for each in reports if news.is_in(each)] == [1.0, 6.0, 11.0]


def test_what_changed_is_said_at_once() -> None:
    news = ReportNews(1.0)
    said = ["compiling gather", "compiling gather", "compiling pool", ""]
    assert [news.is_in(report(1.0 + n / 10, compiling=text)) for n, text in enumerate(said)] == [
        True,
        False,
        True,
        True,
    ]
    assert news.is_in(report(2.0, moves=("io-1 came",)))
    assert news.is_in(report(2.0, bad_rows=1))
    assert all(news.is_in(report(2.0, samples=n)) for n in (1, 2))


def test_reports_without_pause_are_all_made() -> None:
    news = ReportNews(0.0)
    assert all(news.is_in(report(0.0)) for _ in range(3))


def test_a_report_says_what_is_waited_for() -> None:
    assert str(report(1.0, compiling="compiling gather")) == "epoch 1/1 | compiling gather"
    assert str(report(1.0)) == "epoch 1/1 | no batch trained yet"
