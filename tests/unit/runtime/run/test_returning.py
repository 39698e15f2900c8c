"""Workers that were given up and answer again."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from heterps.errors import ClusterError
from heterps.runtime.run import returning
from heterps.runtime.run.returning import Returning


class Cluster:
    """A scheduler that says when it last heard of two workers, of which one was given up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.now, self.run = 1.0, 0.0, "run"
        self.asked, self.error = threading.Event(), None
        monkeypatch.setattr(returning, "ask_workers", self._ask)
        self.returning = Returning(None, lambda: self.now)  # type: ignore[arg-type]
        self.silent = self.returning.silent
        self.silent.add("b")

    def _ask(self, client: Any, function: Callable[..., None], workers: dict[str, str], run: str) -> None:
        assert (function, workers, run) == (returning.free_left, {"b": "io-1"}, "run")
        self.asked.set()
        if self.error is not None:
            raise self.error

    def look(self) -> set[str]:
        workers = {"a": {"name": "io-0", "last_seen": self.now}, "b": {"name": "io-1", "last_seen": self.seen}}
        return self.returning.look({"workers": workers}, self.run)

    def answer(self) -> None:
        """Wait until the worker was asked and has answered."""
        until = time.monotonic() + 60
        while self.returning._answers.empty():
            assert time.monotonic() < until, "nobody was asked"
            time.sleep(0.001)


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


def test_one_comes_back_although_every_run_is_shorter_than_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run for each look: what the first one left there is freed, and the answer counts in the next."""
    cluster = Cluster(monkeypatch)
    cluster.look()
    cluster.run, cluster.seen = "second", 2.0
    cluster.look()
    cluster.answer()
    cluster.run = "third"
    assert cluster.look() == {"b"}
    assert cluster.silent == set()


def test_one_that_is_gone_meanwhile_is_not_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    for cluster.seen in (1.0, 2.0):
        cluster.look()
    cluster.answer()
    cluster.silent.clear()
    assert cluster.look() == set()
