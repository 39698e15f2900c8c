"""Loops that processes compile beside a training: those it needs, no more, and not for ever."""

from __future__ import annotations

import threading
from typing import Any

import cloudpickle
import pytest

from graphs.wide_deep import wide_deep
from heterps import Plan, launch
from heterps.metrics import metric
from heterps.runtime import ahead
from heterps.runtime.ahead import _Compiling, compile_ahead
from heterps.tables import SGD
from heterps.tiny_runs import Needs


def needs() -> Needs:
    with launch(Plan.fused(wide_deep(slots=2, dense=2, hidden=(2,)), batch_size=4), engine="inline") as session:
        return session.job.needs


class Counted(_Compiling):
    """Keeps what it was told to be done with."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[list[str]] = []

    def _end(self, names: list[str]) -> None:
        self.ended.append(names)
        super()._end(names)


def test_a_process_says_what_it_has_compiled() -> None:
    compiling = Counted()
    measured = Needs(needs().graph, (SGD(),), (), (metric("auc"),))
    compiling._follow(["metrics"], cloudpickle.dumps(measured))
    assert compiling.ended == [["metrics"], ["metrics"]]  # by itself, and when it ended


def test_a_process_that_fails_leaves_its_work_to_others() -> None:
    compiling = Counted()
    compiling._follow(["metrics", "pulls"], b"no pickle")
    assert compiling.ended == [["metrics", "pulls"]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return what processes were started for, instead of starting them."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(ahead, "start_thread", lambda name, work, mine, sent, **_: found.append(tuple(mine)))
    monkeypatch.setattr(ahead, "_COMPILING", _Compiling())
    return found


def test_nothing_is_started_where_nothing_is_missing(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "missing", lambda needs: ())
    compile_ahead(needs())
    assert (started, ahead.told()) == ([], "")


def test_parts_are_dealt_to_processes_and_counted(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = needs()
    monkeypatch.setattr(ahead, "missing", lambda needs: ("pushes", "pulls", "computing"))
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda _: {0, 1})
    compile_ahead(wanted)
    assert started == [("pushes",), ("computing", "pulls")]
    assert ahead.told() == "compiling loops, 0 of 3 parts done, left: pushes, pulls, computing"
    ahead._COMPILING._end(["computing"])
    compile_ahead(wanted)  # another session: these processes are enough
    assert len(started) == 2
    assert ahead.told() == "compiling loops, 1 of 3 parts done, left: pushes, pulls"
    ahead._COMPILING._end(["pushes", "pulls"])
    assert ahead.told() == ""


def test_one_core_compiles_for_itself(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "missing", lambda needs: ("pushes",))
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda _: {0})
    compile_ahead(needs())
    assert started == []


def test_what_does_not_travel_is_left_to_this_process(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lock: Any = threading.Lock()
    bound = Needs(needs().graph, (), (), (lock,))
    monkeypatch.setattr(ahead, "missing", lambda needs: ("metrics",))
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda _: {0, 1})
    compile_ahead(bound)
    assert (started, ahead.told()) == ([], "")
