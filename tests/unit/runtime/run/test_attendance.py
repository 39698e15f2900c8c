"""Workers that Dask has paused, that are slow to begin or never do: the run goes on beside them and says so."""

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import dask
import pytest
from distributed import Client, Status

import heterps as hps
from heterps.errors import ClusterError
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.workers.io_actor import IoActor
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture
def client() -> Iterator[Client]:
    with local_cluster({"server": 1, "io": 2}) as made:
        yield made


def pause(client: Client, *names: str, paused: bool = True) -> None:
    """Pause workers as Dask does when their memory is nearly full; nothing wakes them but this."""

    async def act() -> None:
        for name in names:
            worker = client.cluster.workers[name]
            worker.memory_manager.memory_pause_fraction = False
            worker.status = Status.paused if paused else Status.running

    client.sync(act)


def begun_by(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the attempts that each worker began, by name."""
    begun: dict[str, int] = {}
    good = IoActor.run_attempt

    def count(self: Any, *args: Any) -> int:
        begun[self._worker.name] = begun.get(self._worker.name, 0) + 1
        return good(self, *args)

    monkeypatch.setattr(IoActor, "run_attempt", count)
    return begun


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_paused_worker_is_named_left_out_and_used_again(
    client: Client, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = begun_by(monkeypatch)
    pause(client, "io-1")
    samples, epochs = 0, 400
    with hps.launch(plan(workers=2, lanes=2), client=client, mode=mode, report_s=0.05) as session:
        since = time.monotonic()
        for progress in session.train(data(split=100), epochs=epochs):
            samples = progress.samples
            if samples and "io-1" not in begun and client.cluster.workers["io-1"].status == Status.paused:
                pause(client, "io-1", paused=False)
            if begun.get("io-1", 0) > 1:
                break
            assert time.monotonic() - since < 60
    assert samples > 0
    assert begun["io-0"] > 0
    assert "worker io-1 is paused by Dask" in caplog.text


def test_a_worker_that_is_paused_in_the_middle_keeps_nothing_waiting(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = begun_by(monkeypatch)
    with hps.launch(plan(workers=2), client=client, report_s=0.02) as session:
        paused, samples = False, 0
        for progress in session.train(data(split=100), epochs=10):
            samples = progress.samples
            if not paused and begun.get("io-1"):
                pause(client, "io-1")
                paused = True
    assert paused
    assert samples == 15_000


def test_a_run_all_of_whose_io_workers_are_paused_ends_with_their_names(client: Client) -> None:
    pause(client, "io-0", "io-1")
    with (
        dask.config.set({"heterps.timeouts.workers": "1s"}),
        hps.launch(plan(workers=2), client=client) as session,
        pytest.raises(ClusterError, match=r"for an io worker to run Splits \(paused by Dask.*io-0, io-1\)"),
    ):
        list(session.train(data()))


@pytest.mark.parametrize("limit", ["5m", "1s"])
def test_a_worker_that_is_slow_to_begin_holds_nobody_up(
    client: Client, limit: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Reports keep coming, batches are trained; beyond the limit the worker is lost to the run, by name."""
    good, waits = IoActor.__init__, threading.Event()

    def slow(self: Any, *args: Any) -> None:
        good(self, *args)
        if self._worker.name == "io-1":
            waits.wait(30)

    monkeypatch.setattr(IoActor, "__init__", slow)
    times, samples = [time.monotonic()], 0
    with (
        dask.config.set({"heterps.timeouts.make": limit}),
        hps.launch(plan(workers=2), client=client, report_s=0.1) as session,
    ):
        try:
            for progress in session.train(data(), epochs=10_000):
                times.append(time.monotonic())
                samples = progress.samples
                if times[-1] - times[0] > 4:
                    break
        finally:
            waits.set()
    assert samples > 0
    assert max(b - a for a, b in pairwise(times)) < 20  # and not until the worker has begun
    assert ("worker io-1 is lost to the run" in caplog.text) == (limit == "1s")


def test_inference_does_not_wait_for_paused_workers_for_ever(client: Client) -> None:
    with (
        dask.config.set({"heterps.timeouts.workers": "1s", "heterps.timeouts.make": "1s"}),
        hps.launch(plan(workers=2), client=client) as session,
    ):
        assert session.evaluate(data())
        pause(client, "io-0", "io-1")
        with pytest.raises(ClusterError, match=r"for an io worker that is not paused by Dask.*io-0, io-1"):
            session.evaluate(data())
        pause(client, "io-0", "io-1", paused=False)
    pause(client, "server-0")
    with (
        dask.config.set({"heterps.timeouts.make": "1s"}),
        hps.launch(plan(workers=2), client=client) as session,
        pytest.raises(ClusterError, match=r"shard host 0 was not made on worker .* within 1 s"),
    ):
        session.evaluate(data())
