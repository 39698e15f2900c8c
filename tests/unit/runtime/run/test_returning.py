"""Workers that were given up and answer again."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from heterps.errors import ClusterError
from heterps.runtime.run import returning
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.returning import Returning


class Cluster:
    """A scheduler that says when it last heard of two workers, of which one was given up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.silent, self.seen, self.now = {"b"}, 1.0, 0.0
        self.arrivals, self.asked, self.error = Arrivals(), threading.Event(), None
        monkeypatch.setattr(returning, "ask_workers", self._ask)
        self.returning = Returning(None, self.silent, "run", lambda: self.now)  # type: ignore[arg-type]

    def _ask(self, client: Any, function: Callable[..., None], workers: dict[str, str], run: str) -> None:
        assert (function, workers, run) == (returning.free_left, {"b": "io-1"}, "run")
        self.asked.set()
        if self.error is not None:
            raise self.error

    def look(self) -> set[str]:
        workers = {"a": {"name": "io-0", "last_seen": self.now}, "b": {"name": "io-1", "last_seen": self.seen}}
        return self.returning.look({"workers": workers}, self.arrivals.post)

    def answer(self) -> None:
        """Wait until the worker was asked, and take what follows."""
        self.arrivals.get(timeout=60)()  # type: ignore[operator]


def test_one_that_is_heard_of_and_answers_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    assert [cluster.look(), cluster.look()] == [set(), set()]
    assert not cluster.asked.is_set(), "the scheduler has not heard of it since"
    cluster.seen = 2.0
    cluster.look()
    cluster.answer()
    assert cluster.look() == {"b"}
    assert cluster.silent == set()
    assert cluster.look() == set()


def test_one_that_is_heard_of_and_does_not_answer_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.error = ClusterError("no answer")
    for cluster.seen in (1.0, 2.0):
        cluster.look()
    cluster.answer()
    assert cluster.look() == set()
    assert cluster.silent == {"b"}
    cluster.error, cluster.seen = None, 3.0
    cluster.look()
    cluster.answer()
    assert cluster.look() == {"b"}


def test_one_that_is_given_up_again_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    for cluster.seen in (1.0, 2.0):
        cluster.look()
    cluster.answer()
    cluster.look()
    cluster.silent.add("b")
    cluster.asked.clear()
    for cluster.seen in (3.0, 4.0):
        cluster.look()
    assert not cluster.asked.is_set()
    cluster.now = 1e6
    cluster.look()
    cluster.answer()
    assert cluster.look() == {"b"}
