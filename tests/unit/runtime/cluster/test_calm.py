"""Schedulers and workers with our preload leave the cores to training."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import dask
import pytest
from distributed import Scheduler, Worker

from heterps.runtime import preload
from heterps.runtime.cluster.calm import calm_beats

pytestmark = pytest.mark.xdist_group("dask")


async def intervals(calm: bool) -> dict[str, float]:
    """Milliseconds between two looks of a worker at itself, by what it looks at."""
    loopback = {"dashboard": False, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with dask.config.set({"heterps.worker.calm": calm, "heterps.worker.warm": False}):
        async with Scheduler(port=0, preload=[preload.__name__], **loopback) as scheduler:
            loopback.pop("dashboard")
            async with Worker(scheduler.address, preload=[preload.__name__], **loopback) as worker:
                assert "heartbeat" in worker.periodic_callbacks
                ticks = [each.periodic_callbacks["tick"].callback_time for each in (scheduler, worker)]
                assert ticks[0] == ticks[1]
                await worker.heartbeat()  # whose answer says when the next one is wanted
                return {name: callback.callback_time for name, callback in worker.periodic_callbacks.items()}


def test_they_look_at_themselves_seldom_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for others in ("leave_on_sigterm", "prepare_process"):  # what it does to a process of its own
        monkeypatch.setattr(preload, others, lambda *given: None)
    calm, eager = (asyncio.run(intervals(wanted)) for wanted in (True, False))
    assert eager["tick"] == 20
    assert eager["profile"] == 10
    assert "profile" not in calm
    assert calm["tick"] == 500
    assert calm["memory_monitor"] == 500 > eager["memory_monitor"]
    assert calm["heartbeat"] == 2000 > eager["heartbeat"]


def test_workers_that_are_soon_given_up_for_silence_say_often_that_they_live() -> None:
    with dask.config.set({"heterps.timeouts.call": "4s"}):
        scheduler = SimpleNamespace(handlers={"heartbeat_worker": answer})
        calm_beats(scheduler)
    assert scheduler.handlers["heartbeat_worker"](address="known") == {"status": "OK", "heartbeat-interval": 0.5}
    assert scheduler.handlers["heartbeat_worker"](address="gone") == {"status": "missing"}


def answer(address: str) -> dict[str, object]:
    return {"status": "missing"} if address == "gone" else {"status": "OK", "heartbeat-interval": 0.1}
