"""How long a call to an actor waits, and for what; whatever Dask answers is a value, our error or one ClusterError."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from time import monotonic
from types import SimpleNamespace
from typing import Any

import dask
import pytest
from distributed import Client

from heterps.errors import ClusterError, DataError, RunError
from heterps.runtime import answers
from heterps.runtime.cluster import ask, identity
from heterps.runtime.run import remote as module
from heterps.runtime.run.remote import Remote, Seat
from tests.unit.runtime.played import ANSWERS, Pending

LIMIT_S = 0.3


@pytest.fixture
def loop() -> Iterator[Any]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(asyncio_loop=made)
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, loop: Any) -> Any:
    """A handle whose worker is heard of at the times in ``remote.heard``."""
    made: Any = Remote.__new__(Remote)
    made.worker, made._name, made.heard = "w", "Thing", iter(range(1000))
    made._unwanted, made._heard, made._making_s, made._looked = threading.Event(), 0.0, 0.0, monotonic()
    made._client = SimpleNamespace(as_current=nullcontext, loop=loop, status="running")
    made._future = SimpleNamespace(status="finished", release=lambda: None)
    monkeypatch.setattr(answers, "_LOOK_S", 0.02, raising=False)
    monkeypatch.setattr(module, "identity_of", lambda client: {"workers": {"w": {"last_seen": next(made.heard)}}})
    with dask.config.set({"heterps.timeouts.call": f"{LIMIT_S}s"}):
        yield made


@pytest.mark.parametrize("after_s", [0.0, 0.1])
@pytest.mark.parametrize("name", ANSWERS)
def test_whatever_dask_answers_is_one_error_that_names_object_worker_and_method(
    remote: Any, name: str, after_s: float
) -> None:
    since = monotonic()
    with pytest.raises(ClusterError, match=r"^Thing on worker w did not answer to load: .") as caught:
        remote.finish(Pending(after_s, ANSWERS[name]()), "load")
    assert monotonic() - since < LIMIT_S + 1
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("name", ANSWERS)
def test_and_so_it_is_while_an_actor_is_made(remote: Any, name: str) -> None:
    released = []
    future = Pending(0.0, ANSWERS[name]())
    future.release, future.status = lambda: released.append(1), "error"  # type: ignore[attr-defined]
    remote._client.submit = lambda *args, **options: future
    with pytest.raises(ClusterError, match=r"^dict on worker w did not answer to being made: ."):
        Remote(remote._client, "w", dict)
    assert released


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "type"])  # Dask's TypeError is about pickling
def test_and_where_a_call_or_task_cannot_even_be_sent(remote: Any, name: str) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise ANSWERS[name]()

    remote._actor = SimpleNamespace(
        key="k", _io_loop=remote._client.loop, _worker_rpc=SimpleNamespace(actor_execute=refuse)
    )
    with pytest.raises(ClusterError, match=r"^Thing on worker w did not answer to load: ."):
        remote.call("load")
    remote._client.submit = refuse
    with pytest.raises(ClusterError, match=r"^dict on worker w did not answer to being made: ."):
        Remote(remote._client, "w", dict)


def test_what_cannot_be_pickled_is_not_the_workers_fault(remote: Any) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise TypeError("Could not serialize object of type HighLevelGraph")

    remote._client.submit = refuse
    with pytest.raises(RunError, match="cannot be sent to a worker: Could not serialize"):
        Remote(remote._client, "w", dict)


@pytest.mark.parametrize("name", ANSWERS)
def test_and_of_the_scheduler_and_of_several_workers(remote: Any, name: str) -> None:
    async def refuse(*args: Any, **options: Any) -> Any:
        raise ANSWERS[name]()

    def sync(function: Callable[..., Any], *args: Any, callback_timeout: float | None = None, **options: Any) -> Any:
        """As Dask does it, without the mistake; so that this can be run against code that calls it."""
        asked = function(*args, **options)
        return asyncio.run_coroutine_threadsafe(asked, remote._client.loop.asyncio_loop).result()

    remote._client.scheduler, remote._client.run = SimpleNamespace(identity=refuse), refuse
    remote._client.sync = sync
    with pytest.raises(ClusterError, match=r"the scheduler is gone \(."):
        identity.identity_of(remote._client)
    with pytest.raises(ClusterError, match="io-0"):
        ask.ask_workers(remote._client, print, {"w": "io-0"})


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_calling_thread_passes(
    remote: Any, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(client: Any) -> Any:
        raise kind

    monkeypatch.setattr(module, "identity_of", look)
    with pytest.raises(kind):
        remote.finish(Pending(60))


@pytest.mark.parametrize("error", [DataError("bad row"), RunError("Thing.load failed: TypeError: x")])
def test_an_error_of_our_own_code_stays_what_it_is(remote: Any, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        remote.finish(Pending(0.0, error), "load")
    assert caught.value is error


class StrangeError(DataError):
    """Cannot be made again from its arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


class Thing:
    def raises(self, error: BaseException) -> None:
        raise error


@pytest.mark.parametrize("error", [TypeError("no"), OSError(28, "disk full"), KeyError("k"), StrangeError("a", "b")])
def test_on_the_worker_every_other_error_gets_a_name_that_travels(error: Exception) -> None:
    with pytest.raises(RunError, match=rf"Thing\.raises on worker .* failed: {type(error).__name__}: ") as caught:
        Seat(Thing).call("raises", error)
    assert "There:\nTraceback" in caught.value.__notes__[0]


def test_a_loop_that_does_not_run_or_is_closed_is_not_waited_for(remote: Any) -> None:
    stopped = asyncio.new_event_loop()
    remote._client.loop = SimpleNamespace(asyncio_loop=stopped)
    with pytest.raises(ClusterError, match="no answer for"):
        remote.finish(Pending())
    stopped.run_until_complete(asyncio.sleep(0))
    stopped.close()
    with pytest.raises(ClusterError, match="Event loop is closed"):
        remote.finish(Pending())


def test_work_may_take_long_while_the_worker_is_heard_of(remote: Any) -> None:
    assert remote.finish(Pending(3 * LIMIT_S), patient=True) == "answer"
    with pytest.raises(ClusterError, match=r"no answer for 0\.3 s"):
        remote.finish(Pending(3 * LIMIT_S))


def test_a_silent_worker_is_given_up(remote: Any) -> None:
    remote.heard = iter([1] * 1000)
    with pytest.raises(ClusterError, match=r"Thing on worker w did not answer to load: silence for 0\.3 s"):
        remote.finish(Pending(60), "load", patient=True)


def test_a_worker_or_actor_that_is_gone_is_not_waited_for(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    remote._future.status = "cancelled"
    with pytest.raises(ClusterError, match="cancelled"):
        remote.finish(Pending(60), patient=True)
    monkeypatch.setattr(module, "identity_of", lambda client: {"workers": {}})
    with pytest.raises(ClusterError, match="the worker is gone"):
        remote.finish(Pending(60), patient=True)


@pytest.mark.parametrize("answers", [True, False])
def test_a_scheduler_that_is_slow_does_not_cost_a_healthy_worker(
    remote: Any, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """It says late, or not at all, when it last heard of the worker: that is not the worker's silence."""

    def look(client: Any) -> Any:
        threading.Event().wait(1.5 * LIMIT_S)
        if answers:
            return {"workers": {"w": {"last_seen": 1}}}
        raise ClusterError("the scheduler is gone (no answer)")

    monkeypatch.setattr(module, "identity_of", look)
    assert remote.finish(Pending(4 * LIMIT_S), patient=True) == "answer"
    if not answers:
        remote._client.status = "closed"
        with pytest.raises(ClusterError, match="the scheduler is gone"):
            remote.finish(Pending(60), patient=True)


def test_an_actor_is_waited_for_a_limited_time_not_counting_that_in_which_dask_lets_its_worker_begin_nothing(
    remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused_until = monotonic() + 3 * LIMIT_S

    def look(client: Any) -> Any:
        status = "paused" if monotonic() < paused_until else "running"
        return {"workers": {"w": {"last_seen": next(remote.heard), "status": status}}}

    monkeypatch.setattr(module, "identity_of", look)
    future = Pending(60)
    future.release, future.status = lambda: None, "pending"  # type: ignore[attr-defined]
    remote._client.submit = lambda *args, **options: future
    with (
        dask.config.set({"heterps.timeouts.make": f"{LIMIT_S}s"}),
        pytest.raises(ClusterError, match=r"dict on worker w did not answer to being made: not made within 0\.3 s"),
    ):
        Remote(remote._client, "w", dict)
    assert monotonic() > paused_until + LIMIT_S / 2


def test_what_nobody_wants_any_more_is_not_waited_for(remote: Any) -> None:
    threading.Timer(0.1, remote._unwanted.set).start()
    with pytest.raises(ClusterError, match="nobody waits for it any more"):
        remote.finish(Pending(60), patient=True)


def test_a_call_that_dasks_handler_raises_for_ends_by_name(local: Client) -> None:
    """The worker has let go of the actor: Dask's handler raises there, and Dask's own call would wait for ever."""
    worker = next(iter(local.scheduler_info(n_workers=-1)["workers"]))
    made = Remote(local, worker, Counter)
    made.call("count")
    key = made._future.key
    local.run(lambda dask_worker: dask_worker.state.actors.pop(key), workers=[worker])
    with pytest.raises(ClusterError, match=r"^Counter on worker .* did not answer to count: KeyError"):
        made.call("count", patient=True)
    made.release()


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def count(self) -> int:
        self.n += 1
        return self.n

    def close(self) -> None:
        """Nothing to end."""
