"""How long a call to an actor waits, and for what."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import dask
import pytest

from heterps.errors import ClusterError
from heterps.runtime import remote as module
from heterps.runtime.remote import Remote


class Pending:
    """An answer that is there after so many looks, and then takes so long to fetch."""

    def __init__(self, looks: float, fetch_s: float = 0.0, error: Exception | None = None) -> None:
        self.looks, self.fetch_s, self.error = looks, fetch_s, error

    def done(self) -> bool:
        return self.looks <= 0

    def result(self, timeout: float) -> str:
        late = not self.done() or timeout < self.fetch_s
        self.looks -= 1
        if late:
            raise TimeoutError
        if self.error is not None:
            raise self.error
        return "answer"


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A handle whose worker is heard of at the times in ``remote.heard``; a look takes a second of its clock."""
    made: Any = Remote.__new__(Remote)
    made.worker, made._name, made.heard, now = "w", "Thing", iter(range(1000)), iter(range(1000))
    made._client = SimpleNamespace(as_current=nullcontext)
    made._future = SimpleNamespace(status="finished")
    monkeypatch.setattr(module, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(module, "identity_of", lambda client: {"workers": {"w": {"last_seen": next(made.heard)}}})
    with dask.config.set({"heterps.timeouts.call": "20s"}):
        yield made


def test_an_answer_that_is_there_is_fetched_however_long_that_takes(remote: Any) -> None:
    assert remote.finish(Pending(0, fetch_s=5.0)) == "answer"
    assert remote.finish(Pending(3, fetch_s=5.0)) == "answer"


def test_work_may_take_long_while_the_worker_is_heard_of(remote: Any) -> None:
    assert remote.finish(Pending(200), patient=True) == "answer"
    with pytest.raises(ClusterError, match="no answer for 20 s"):
        remote.finish(Pending(200))


def test_a_silent_worker_is_given_up(remote: Any) -> None:
    remote.heard = iter([1] * 1000)
    with pytest.raises(ClusterError, match="Thing on worker w did not answer to load: silence for 20 s"):
        remote.finish(Pending(200), "load", patient=True)


def test_a_time_limit_within_the_call_does_not_make_the_caller_wait_again(remote: Any) -> None:
    with pytest.raises(ClusterError):
        remote.finish(Pending(0, error=TimeoutError()), patient=True)


def test_a_worker_or_actor_that_is_gone_is_not_waited_for(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    remote._future.status = "cancelled"
    with pytest.raises(ClusterError, match="cancelled"):
        remote.finish(Pending(200))
    monkeypatch.setattr(module, "identity_of", lambda client: {"workers": {}})
    with pytest.raises(ClusterError, match="the worker is gone"):
        remote.finish(Pending(200))
