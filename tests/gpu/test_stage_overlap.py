"""A stage on a device: the next batch is copied up while one computes, nothing is touched too early, one wait each."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import heterps.device.transfer as right
from heterps.device import FoundDevices, fake
from heterps.graph import Graph, ops
from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.devices import CPU, DeviceWish
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.workers import stage as stage_module
from heterps.runtime.workers.stage import Flight, StageService
from tests.gpu.planted import Mistake
from tests.gpu.streams import RaceError
from tests.gpu.timed_device import TimedDevice, timed

N, DEPTH = 6, 3


def graph() -> Graph:
    x, y = ops.input("x", shape=(4,)), ops.input("y")
    hidden = ops.relu(ops.dense(x, 5, name="fc"), name="hidden")
    return Graph(loss=ops.logloss(ops.dense(hidden, 1, name="out"), y, name="loss"))


LAST, MIDDLE = (("x", "y"), ("fc", "hidden", "out", "loss")), (("x", "y"), ("fc", "hidden"), ("out", "loss"))


def job(stages: tuple[tuple[str, ...], ...], device: str = "fake") -> Job:
    return Job(Model(graph()), N, Async(), stages=stages, devices=DeviceWish(device))


class Source:
    """Dense parameters that are others for each batch."""

    def __init__(self) -> None:
        self.filled = 0

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        self.filled += 1
        params.write(slice(0, layout.size), np.linspace(-1, self.filled, layout.size, dtype=np.float32))

    def holder(self) -> None:
        """Gradients go back with the outcome."""


def feeds(n: int, rows: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {
        "x": rng.standard_normal((rows, 4)).astype(np.float32),
        "y": (rng.random(rows) < 0.5).astype(np.float32),
    }


def play(stage: StageService, batches: int, rows: int = N) -> list[StageOutcome]:
    """Keep as many batches in the stage as it has turns for."""
    flights, found = deque[Flight](), []
    for n in range(batches):
        if len(flights) == DEPTH:
            found.append(stage.finish(flights.popleft()))
        flights.append(stage.begin(n, feeds(n, rows)))
    return found + [stage.finish(flight) for flight in flights]


def last_stage(device: str = "fake") -> StageService:
    return StageService(job(LAST, device), 1, Source())


def middle_stage(device: str = "fake") -> StageService:
    """One with another behind it, here on the CPU."""
    behind = StageService(job(MIDDLE, "cpu"), 2, Source())
    return StageService(job(MIDDLE, device), 1, Source(), behind.step)


def same(found: list[StageOutcome], expected: list[StageOutcome]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
        for i in theirs.dense:
            np.testing.assert_allclose(ours.dense[i], theirs.dense[i], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("copy_down", "most"), [(0.0, 102.0), (1.0, 103.0)])
def test_a_hundred_batches_take_as_long_as_their_computation(copy_down: float, most: float) -> None:
    machine = TimedDevice(copy=1.0, copy_down=copy_down)
    with timed(machine):
        stage = last_stage()
        warm = play(stage, DEPTH)
        before = machine.kernels
        play(stage, DEPTH)
        machine.kernel_took = DEPTH / (machine.kernels - before)  # of one batch together: 1
        start, copies, waits = machine.now, machine.copies, machine.syncs
        play(stage, 100)
        assert machine.now - start <= most + 1e-6
        assert machine.now - start > 100
        assert machine.copies - copies == 200  # one up, one down
        assert machine.syncs - waits == 100
    same(warm, play(last_stage("cpu"), DEPTH))


@pytest.mark.parametrize("device", ["fake", pytest.param("gpu:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("make", [last_stage, middle_stage])
def test_batches_that_overlap_give_what_the_cpu_gives(make: Any, device: str) -> None:
    same(play(make(device), 20), play(make("cpu"), 20))


def test_one_batch_after_another_would_take_twice_as_long() -> None:
    """What the bound above is worth: without flights every copy is waited for."""
    machine = TimedDevice(copy=1.0)
    with timed(machine):
        stage = last_stage()
        stage.step(0, feeds(0))
        before = machine.kernels
        stage.step(0, feeds(0))
        machine.kernel_took, start = 1 / (machine.kernels - before), machine.now
        for n in range(100):
            stage.step(n, feeds(n))
        assert machine.now - start > 190


@pytest.mark.parametrize("make", [last_stage, middle_stage])
def test_no_memory_is_touched_out_of_order(make: Any) -> None:
    machine = TimedDevice(copy_down=1.0)
    with timed(machine):
        stage = make()
        found = [*play(stage, 6, rows=3), *play(stage, 6)]  # the second time more is copied: memory grows
    cpu = make("cpu")
    same(found, [*play(cpu, 6, rows=3), *play(cpu, 6)])


TRANSFER, PROGRAM = "device/transfer.py", "runtime/batch/device_program.py"
MISTAKES = [
    Mistake(TRANSFER, "self._transfer.xp.cuda.get_current_stream().wait_event(self._sent)", "pass", "races"),
    Mistake(TRANSFER, "down.wait_event(_mark(xp, xp.cuda.get_current_stream()))", "pass", "races"),
    Mistake(TRANSFER, "self._turn.done.synchronize()", "pass", "races"),
    Mistake(
        TRANSFER,
        "            xp.cuda.get_current_stream().wait_event(_mark(xp, down))\n",
        "            pass\n",
        "races",
    ),
    Mistake(TRANSFER, "            with stream:\n    ", "", "races"),
    Mistake(PROGRAM, "there = dict(self._laps[-1].arrive())", "there = dict(self._laps[-1]._device)", "races"),
    Mistake(PROGRAM, "given = self._laps[-1].arrive() if", "given = self._laps[-1]._device if", "races"),
    Mistake(PROGRAM, "here = self._laps[-1].collect()", "here = self._laps[-1]._results", "races"),
    Mistake(
        PROGRAM, "            here = self._collect()\n", "            self.release(); here = self._collect()\n", "races"
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_each_wait_removed_is_found(mistake: Mistake) -> None:
    module = mistake.module()
    transfer: ModuleType = module if mistake.file == TRANSFER else right
    machine = TimedDevice(copy_down=1.0)
    with timed(machine, transfer) as patch:
        if mistake.file == PROGRAM:
            patch.setattr(stage_module, "DeviceProgram", module.DeviceProgram)
        try:
            play_all()
        except (RaceError, RuntimeError, IndexError):
            return
    assert machine.syncs != WAITS


WAITS = 12 * (1 + 2)  # of the host: one a batch in the last stage, one more where outputs go to another


def play_all() -> None:
    for make in (last_stage, middle_stage):
        stage = make()
        play(stage, 6, rows=3)
        play(stage, 6)


def test_without_a_mistake_nothing_is_found() -> None:
    machine = TimedDevice(copy_down=1.0)
    with timed(machine):
        play_all()
    assert machine.syncs == WAITS


def test_threads_that_call_a_stage_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch is done only once the second was copied up: a stage that held its slot would wait for ever."""
    stage = last_stage()
    stage.step(0, feeds(0))
    uploads, second = [], threading.Event()
    upload = right.Lap.upload

    def uploaded(self: right.Lap) -> None:
        upload(self)
        uploads.append(self)
        if len(uploads) == 2:
            second.set()

    def synchronize(self: Any) -> None:
        assert second.wait(timeout=60), "no batch was copied while another computed"

    monkeypatch.setattr(right.Lap, "upload", uploaded)
    monkeypatch.setattr(fake._FakeEvent, "synchronize", synchronize)
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(stage.step(0, feeds(0)).loss)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(found) == 2


@pytest.mark.parametrize(("free", "most"), [(None, 3), (10**9, 3), (1, 1)])
def test_a_stage_holds_as_many_batches_as_fit(free: int | None, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = last_stage().device
    found = FoundDevices(free_bytes={} if free is None else {made.place: free})
    monkeypatch.setattr("heterps.runtime.batch.job.found_devices", lambda: found)
    assert job(LAST).batches_on(1, made, 3) == most
    assert job(LAST).batches_on(1, CPU, 3) is None


def test_an_error_leaves_the_turn_to_the_next() -> None:
    stage = last_stage()
    wrong: Mapping[str, Any] = feeds(0) | {"x": np.ones((N, 3), np.float32)}
    for _ in range(2 * DEPTH):
        with pytest.raises(Exception, match="stage 1 on this process"):
            stage.step(0, wrong)
    assert np.isfinite(stage.step(0, feeds(0)).loss)
