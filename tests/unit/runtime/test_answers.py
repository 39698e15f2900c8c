"""Answers of a real cluster in this process: our errors, Dask's, and what its threads would keep to themselves."""

import asyncio
import concurrent.futures
import gc
import itertools
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import dask
import pytest
from distributed import Client

from heterps.errors import ClusterError, DataError, RunError
from heterps.protocol.words import events as ev
from heterps.runtime import answers
from heterps.runtime.cluster.pools import pools_of
from heterps.runtime.run import inference_tasks
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.directory import Directory
from heterps.runtime.run.inference_tasks import InferenceTasks
from heterps.runtime.run.remote import Remote
from heterps.runtime.run.split_tasks import SplitTasks
from tests.unit.runtime.played import ANSWERS, Pending


class Slow:
    def __init__(self, seconds: float) -> None:
        time.sleep(seconds)

    def hello(self) -> str:
        return "hello"


class Broken:
    def __init__(self, error: Exception | None = None) -> None:
        if error is not None:
            raise error

    def work(self, error: Exception) -> None:
        raise error


@pytest.fixture
def worker(local: Client) -> str:
    return next(w.address for pool in pools_of(local) for w in pool.workers if w.name == "io-0")


def test_a_fetch_under_way_is_not_lost_by_looking_at_it(
    local: Client, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded loop begins to wait after its caller did, so that one wait ends while the next shares its fetch."""
    fetch = local._gather_remote

    async def slowly(*args: Any) -> Any:
        found = await fetch(*args)
        await asyncio.sleep(0.5)
        return found

    monkeypatch.setattr(local, "_gather_remote", slowly)
    local.loop.add_callback(time.sleep, 0.2)
    made = Remote(local, worker, Slow, 0.4)
    assert made.call("hello") == "hello"
    made.close()


@pytest.mark.parametrize("error", [TypeError("no"), OSError(28, "full"), RuntimeError("odd"), TimeoutError("late")])
def test_an_error_of_the_objects_code_is_not_taken_for_a_lost_worker(
    local: Client, worker: str, error: Exception
) -> None:
    with pytest.raises(RunError, match=rf"making Broken on worker io-0 at .* failed: {type(error).__name__}: "):
        Remote(local, worker, Broken, error)
    made = Remote(local, worker, Broken)
    with pytest.raises(RunError, match=rf"Broken\.work on worker io-0 at .* failed: {type(error).__name__}: "):
        made.call("work", error)
    made.close()


def test_an_error_with_a_name_arrives_as_it_is(local: Client, worker: str) -> None:
    with pytest.raises(DataError, match=r"^bad row$"):
        Remote(local, worker, Broken, DataError("bad row"))


def test_a_cancelled_actor_is_named(local: Client, worker: str) -> None:
    made = Remote(local, worker, Slow, 0.0)
    made._future.cancel()
    time.sleep(0.5)
    for patient in (False, True):
        with (
            dask.config.set({"heterps.timeouts.call": "2s"}),
            pytest.raises(ClusterError, match=rf"^Slow on worker {worker} did not answer to hello: "),
        ):
            made.call("hello", patient=patient)


def test_what_cannot_be_pickled_is_not_the_workers_fault(local: Client, worker: str) -> None:
    with pytest.raises(RunError, match="cannot be sent to a worker"):
        Remote(local, worker, Broken, threading.Lock())


# --- tasks


class Inference:
    """Waits for the one task of an inference on worker "w"; those in ``workers`` are heard of all the time."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client, self.workers, heard = client, ["w"], itertools.count()
        listed = lambda client: {"workers": {worker: {"last_seen": next(heard)} for worker in self.workers}}  # noqa: E731
        monkeypatch.setattr(inference_tasks, "identity_of", listed)
        monkeypatch.setattr(answers, "_LOOK_S", 0.02)

    def result(self, future: Any) -> Any:
        splits: Any = [SimpleNamespace(index=3)]
        tasks = InferenceTasks(self.client, splits, ["w"], lambda *again: future, lambda worker: None)
        tasks._futures = [future]
        return next(tasks.results())


@pytest.fixture
def inference(local: Client, monkeypatch: pytest.MonkeyPatch) -> Inference:
    return Inference(local, monkeypatch)


def task(after_s: float = 0.0, error: BaseException | None = None) -> Any:
    made: Any = Pending(after_s, error)
    made.status = "pending"
    return made


@pytest.mark.parametrize("name", ANSWERS)
def test_inference_that_dask_does_not_answer_is_named(inference: Inference, name: str) -> None:
    with pytest.raises(ClusterError, match=r"^split 3 was not inferred by workers w: ."):
        inference.result(task(error=ANSWERS[name]()))


def test_inference_may_take_long_but_not_without_workers(inference: Inference) -> None:
    with dask.config.set({"heterps.timeouts.call": "0.1s"}):
        assert inference.result(task(0.4)) == "answer"
        inference.workers = ["another"]
        with pytest.raises(ClusterError, match=r"^split 3 was not inferred by workers w: they are gone"):
            inference.result(task(60))


@pytest.mark.parametrize("name", ANSWERS)
def test_tasks_of_a_cluster_that_is_gone_need_no_cancelling(local: Client, name: str) -> None:
    async def refuse(futures: Any) -> None:
        raise ANSWERS[name]()

    played: Any = SimpleNamespace(as_current=nullcontext, loop=local.loop, cancel=refuse)
    answers.cancel(played, [])


# --- threads of Dask


class Task:
    """A task that failed; ``error`` is what Dask says when asked for the reason, raised or returned."""

    status = "error"

    def __init__(self, error: BaseException, raised: bool) -> None:
        self.error, self.raised = error, raised

    def exception(self, timeout: float | None = None) -> Any:
        """As Dask's: waits in a thread, is awaited in a loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._exception())
        return self._exception()

    async def _exception(self) -> BaseException:
        if self.raised:
            raise self.error
        return self.error


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


@pytest.fixture
def tasks(local: Client, arrivals: Arrivals) -> SplitTasks:
    return SplitTasks(local, "run", arrivals, str, Directory(dict))


def arrived(arrivals: Arrivals) -> Any:
    """Return the event that was told, or raise what ends the run."""
    found = arrivals.get_nowait()
    assert arrivals.empty()
    return found() if callable(found) else found


@pytest.mark.parametrize("raised", [False, True])
@pytest.mark.parametrize("error", [KeyError("task"), asyncio.CancelledError(), UnboundLocalError("result"), OSError()])
def test_a_failed_task_is_told_whatever_dask_says_of_it(
    tasks: SplitTasks, arrivals: Arrivals, error: BaseException, raised: bool
) -> None:
    tasks.done(7, Task(error, raised))  # type: ignore[arg-type]
    event = arrived(arrivals)
    assert isinstance(event, ev.SplitFailed)
    assert (event.attempt, event.fatal) == (7, False)
    assert type(error).__name__ in event.reason


def test_a_mistake_in_a_task_is_fatal(tasks: SplitTasks, arrivals: Arrivals) -> None:
    tasks.done(7, Task(DataError("bad row"), False))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="bad row"):
        arrived(arrivals)


def test_an_error_that_comes_when_nobody_waits_any_more_is_not_printed() -> None:
    printed: list[Any] = []

    async def given_up() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: printed.append(told))
        begun: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(answers._Begun(begun), 0.01)
        begun.set_exception(OSError("the connection is gone"))
        await asyncio.sleep(0.01)
        gc.collect()  # a future says so when it goes

    asyncio.run(given_up())
    assert not printed
