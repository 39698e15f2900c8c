"""Inference on workers of which one falls silent: what it had is run elsewhere, nothing is lost, done twice or late."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dask
import numpy as np
import pytest
from distributed import get_worker

import heterps as hps
from heterps.errors import ClusterError
from heterps.runtime.batch.inference import infer_split
from heterps.runtime.run import inference_tasks
from heterps.runtime.workers import infer_task
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data

pytestmark = pytest.mark.xdist_group("dask")


class Frozen:
    """Stands for a stopped process: a worker does nothing with what it is given, and is not heard of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.thawed = threading.Event()
        self.workers: set[str] = set()
        self.ran: Counter[int] = Counter()
        self._count, self._lock = count, threading.Lock()
        self._seen: dict[str, float] = {}
        good = inference_tasks.identity_of

        def identity(client: Any) -> Any:
            found = good(client)
            for worker in self.workers:
                told = found["workers"][worker]
                told["last_seen"] = self._seen.setdefault(worker, told["last_seen"])
            return found

        monkeypatch.setattr(inference_tasks, "identity_of", identity)
        monkeypatch.setattr(infer_task, "infer_split", self._infer)

    def _infer(self, job: Any, read: Any, dataset: Any, split: Any, *rest: Any) -> Any:
        here = get_worker().address
        with self._lock:
            if len(self.workers) < self._count:
                self.workers.add(here)
        if here in self.workers:
            self.thawed.wait()
        with self._lock:
            self.ran[split.index] += 1
        return infer_split(job, read, dataset, split, *rest)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Frozen]:
    made = Frozen(monkeypatch, getattr(request, "param", 1))
    with dask.config.set({"heterps.timeouts.call": "1s"}):
        yield made
    made.thawed.set()


def test_a_worker_that_falls_silent_is_given_up_and_its_splits_run_elsewhere(frozen: Frozen) -> None:
    rows = data(1500, split=100)
    with hps.launch(plan(), engine="inline") as session:
        wanted = session.predict(rows)
    with hps.launch(plan(workers=2)) as session:
        found = session.predict(rows)
        assert len(frozen.workers) == 1
        assert np.array_equal(np.asarray(found), np.asarray(wanted))
        assert sorted(frozen.ran) == list(range(15))
        frozen.ran.clear()
        assert np.array_equal(np.asarray(session.predict(rows)), np.asarray(wanted)), "it is not asked again"
        assert set(frozen.ran.values()) == {1}
        frozen.thawed.set()


@pytest.mark.parametrize("frozen", [2], indirect=True)
def test_when_nobody_is_heard_of_the_error_says_so(frozen: Frozen) -> None:
    with hps.launch(plan(workers=2)) as session:
        with pytest.raises(ClusterError, match=r"split \d+ was not inferred by workers .*: silence for 1 s"):
            session.predict(data(1500, split=100))
        frozen.thawed.set()
