"""Transfer on streams that take their time: it overlaps, nothing is read or written too early, and lanes notice."""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import heterps.device.transfer as right
from heterps.device import namespace
from heterps.device.fake import TRAFFIC
from tests.gpu.planted import Mistake
from tests.gpu.streams import Machine, RaceError

FILE = "device/transfer.py"


def play(machine: Machine, module: ModuleType, batches: int, depth: int = 3, grow: int = 0) -> list[bool]:
    """Train on batches as a stage would; says of each whether its result is right."""
    transfer, laps, good = module.Transfer(machine, depth), deque[tuple[int, Any]](), []
    weights = machine.empty(64, np.float32)  # buffers of the program, the same for each batch
    machine.kernel(lambda: weights.data.fill(0), (), (weights,), took=0.0)

    def finish() -> None:
        n, lap = laps.popleft()
        result = lap.collect()
        machine.touch(result["g"], write=False)
        good.append(bool((result["g"] == 2 * n).all()) and bool((result["h"] == n + 1).all()))
        lap.release()

    for n in range(batches):
        if len(laps) == depth:
            finish()
        size = 8 + grow * n
        lap = transfer.lap({"x": ((size,), np.float32), "y": ((2, 3), np.int64)})
        machine.touch(lap.host["x"], write=True)
        lap.host["x"][...], lap.host["y"][...] = n, n
        lap.upload()
        sent = lap.arrive()
        x, y = sent["x"], sent["y"]
        g, h = weights[:size], weights[size : size + 1]

        def compute(x: Any = x, y: Any = y, g: Any = g, h: Any = h) -> None:
            g.data[...] = x.data * 2
            h.data[...] = y.data[1, 2] + 1

        machine.kernel(compute, (x, y, weights), (weights,))
        lap.download({"g": g, "h": h})
        laps.append((n, lap))
    while laps:
        finish()
    return good


def test_copies_run_beside_the_computation() -> None:
    machine = Machine(copy=1.0)
    assert all(play(machine, right, 100))
    assert machine.now <= 102
    assert machine.syncs == 100
    assert machine.copies == 200  # one up, one down


def test_copies_down_overlap_as_well() -> None:
    machine = Machine(copy=1.0, copy_down=1.0)
    play(machine, right, 100)
    assert machine.now <= 103


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_no_schedule_changes_a_result(depth: int) -> None:
    for seed in range(40):
        assert all(play(Machine(seed, copy_down=1.0), right, 8, depth, grow=seed % 3))


MISTAKES = [
    Mistake(FILE, "self._transfer.xp.cuda.get_current_stream().wait_event(self._sent)", "pass", "races"),
    Mistake(FILE, "down.wait_event(_mark(xp, xp.cuda.get_current_stream()))", "pass", "races"),
    Mistake(FILE, "self._turn.done.synchronize()", "pass", "races"),
    Mistake(FILE, "self._sent = _mark(xp, up)", "self._sent = _mark(xp, xp.cuda.get_current_stream())", "races"),
    Mistake(
        FILE, "down.wait_event(_mark(xp, xp.cuda.get_current_stream()))", "down.wait_event(_mark(xp, down))", "races"
    ),
    Mistake(
        FILE, "self._turn.done = _mark(xp, down)", "self._turn.done = _mark(xp, xp.cuda.get_current_stream())", "races"
    ),
    Mistake(FILE, "            with stream:\n    ", "", "races"),
    Mistake(
        FILE, "            xp.cuda.get_current_stream().wait_event(_mark(xp, down))\n", "            pass\n", "races"
    ),
    Mistake(FILE, "self._free.pop(0)", "self._free[0]", "races"),
    Mistake(FILE, "[: self._used], stream=stream", "[: self._used]", "time"),
    Mistake(FILE, "get(stream=stream, ", "get(", "time"),
    Mistake(FILE, "blocking=False", "blocking=True", "time"),
    Mistake(FILE, "range(depth)", "range(1)", "time"),
    Mistake(FILE, "cls(_stream(xp), _stream(xp))", "cls(xp.cuda.get_current_stream(), _stream(xp))", "time"),
    Mistake(FILE, "places.append(at)", "places.append(0)", "numbers"),
    Mistake(FILE, "-(-size // ALIGNMENT) * ALIGNMENT", "size", "alignment"),
]


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.lane in ("races", "numbers")], ids=str)
def test_the_race_detector_finds(mistake: Mistake) -> None:
    module, found = mistake.module(), 0
    for seed in range(20):
        try:
            found += not all(play(Machine(seed, copy_down=1.0), module, 8, grow=seed % 3))
        except (RaceError, RuntimeError):
            found += 1
    assert found == 20  # whatever order the schedule drew


@pytest.mark.parametrize(
    "mistake",
    [m for m in MISTAKES if (m.lane == "races" and "wait" in m.right + m.wrong) or "synchron" in m.right],
    ids=str,
)
def test_some_schedule_shows_a_missing_wait_in_the_numbers(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.gpu.streams.Memory.touch", lambda *args, **kwargs: None)
    module = mistake.module()
    assert any(not all(play(Machine(seed, copy_down=1.0), module, 8, grow=seed % 3)) for seed in range(200))


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.lane == "time"], ids=str)
def test_the_clock_finds(mistake: Mistake) -> None:
    machine = Machine(copy=1.0, copy_down=1.0)
    try:
        play(machine, mistake.module(), 100)
    except (RuntimeError, RaceError):
        return
    assert machine.now > 103 or machine.syncs > 100


def test_arrays_are_aligned() -> None:
    layout = {"a": ((3,), np.uint8), "b": ((5,), np.float64)}
    assert right._places(layout) == ([0, 256], 512)
    (planted,) = (m for m in MISTAKES if m.lane == "alignment")
    assert planted.module()._places(layout) != ([0, 256], 512)


def test_a_device_sees_one_copy_each_way_and_one_wait() -> None:
    xp = namespace("fake")
    transfer = right.Transfer(xp)
    for n in range(5):
        TRAFFIC.reset()
        with transfer.send({"x": np.full(4, n, np.float32), "ids": np.arange(3)}) as lap:
            there = lap.arrive()
            lap.download({"g": there["x"] * 2, "ids": there["ids"] + 1})
            result = lap.collect()
            np.testing.assert_array_equal(result["g"], np.full(4, 2 * n, np.float32))
            np.testing.assert_array_equal(result["ids"], [1, 2, 3])
        assert (TRAFFIC.to_device, TRAFFIC.to_host, TRAFFIC.syncs) == (1, 1, 1)


def test_a_cpu_is_handed_the_arrays_themselves() -> None:
    host = {"x": np.ones(3)}
    with right.Transfer(np).send(host) as lap:
        there = lap.arrive()
        assert there["x"] is host["x"]
        lap.download({"g": there["x"]})
        assert lap.collect()["g"] is host["x"]


def test_a_lap_keeps_its_order_and_its_memory() -> None:
    transfer = right.Transfer(namespace("fake"), depth=2)
    first, second = transfer.send({"x": np.ones(3)}), transfer.send({"x": np.ones(3)})
    with pytest.raises(RuntimeError, match="all 2 laps are open"):
        transfer.lap({})
    with pytest.raises(RuntimeError, match="this lap is uploaded"):
        first.collect()
    first.arrive()
    first.download({})
    assert first.collect() == {}
    first.release()
    first.release()  # once more does no harm: the turn is not given away twice
    transfer.lap({})
    with pytest.raises(RuntimeError, match="open"):
        transfer.lap({})
    del second


def test_a_lap_that_ends_early_is_waited_for() -> None:
    machine = Machine(0, copy=5.0)
    transfer = right.Transfer(machine, depth=1)
    with transfer.lap({"x": ((4,), np.float32)}) as lap:
        lap.upload()
    assert machine.now == 5.0
    machine.touch(transfer.lap({"x": ((4,), np.float32)}).host["x"], write=True)


@pytest.mark.gpu
def test_a_gpu_overlaps_and_never_overwrites_what_is_still_read() -> None:
    xp = namespace("gpu")
    transfer, laps, ends = right.Transfer(xp), deque[Any](), []
    for i in range(50):
        if len(laps) == 3:
            ends.append(_finish(laps.popleft()))
        lap = transfer.send({"x": np.full(1_000_000, i, np.float32)})
        y = lap.arrive()["x"]
        for _ in range(20):  # keep the device busy so that a copy that came too early would show
            y = y * 1.0
        lap.download({"y": y})
        laps.append(lap)
    ends += [_finish(lap) for lap in laps]
    assert ends == [(i, i) for i in range(50)]


def _finish(lap: Any) -> tuple[float, float]:
    with lap:
        y = lap.collect()["y"]
        return float(y.min()), float(y.max())
