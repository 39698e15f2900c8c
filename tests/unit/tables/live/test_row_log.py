"""Rows that lie far apart in a log are read through a queue of the kernel, as they are read without one."""

import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heterps.errors import HeterpsError
from heterps.tables.live import row_log
from heterps.tables.live.disk_queue import DEPTH, DiskQueue, disk_queue
from heterps.tables.live.row_log import RowLog
from heterps.tables.loops.disk_reads import PAGE, SECTOR

ROWS, STRIDE = 120_000, 20


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RowLog:
    """A log on disk with rows that tell their position."""
    made = RowLog(STRIDE, tmp_path_factory.mktemp("log"), 1 << 20)
    rows = np.arange(ROWS, dtype=np.uint32)[:, None] * np.uint32(STRIDE) + np.arange(STRIDE, dtype=np.uint32)
    for first in range(0, ROWS, 10_000):
        made.reserve(10_000)
        made.append(rows[first : first + 10_000])
    made._land(0)
    return made


def expected(positions: np.ndarray) -> np.ndarray:
    found: np.ndarray = (positions[:, None] * STRIDE + np.arange(STRIDE)).astype(np.uint32)
    return found


@pytest.mark.parametrize("n", [1, DEPTH - 1, DEPTH, DEPTH + 1, 10 * DEPTH])
@pytest.mark.parametrize("queue", [True, False], ids=["queue", "threads"])
def test_rows_far_apart_are_read(log: RowLog, n: int, queue: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_log, "_has_queue", lambda: queue)
    monkeypatch.setattr(row_log, "GAP", 0)  # always far enough apart
    positions = np.random.default_rng(n).integers(0, ROWS, n)  # in any order, perhaps twice
    np.testing.assert_array_equal(log.read(positions), expected(positions))
    positions[: n // 2] = np.arange(n // 2) + 77  # some side by side
    np.testing.assert_array_equal(log.read(positions), expected(positions))


def test_the_queue_is_used_where_the_kernel_has_one(log: RowLog, monkeypatch: pytest.MonkeyPatch) -> None:
    if disk_queue() is None:
        pytest.skip("the kernel has no queue for reads")
    monkeypatch.setattr(RowLog, "_read_piece", lambda *rest: pytest.fail("read without the queue"))
    positions = np.linspace(0, ROWS // 2, 100).astype(np.int64)  # the rest may still be in memory
    np.testing.assert_array_equal(log.read(positions), expected(positions))


def test_what_the_queue_cannot_read_is_told_as_without_it(log: RowLog) -> None:
    """Positions behind the end of the file: all before the first of them are there."""
    queue = disk_queue()
    if queue is None:
        pytest.skip("the kernel has no queue for reads")
    positions = np.concatenate([np.arange(0, ROWS // 2, 997), 10 * ROWS + 999 * np.arange(200)])
    good = len(np.arange(0, ROWS // 2, 997))
    out = np.zeros((len(positions), STRIDE), np.uint32)
    assert queue.read(log._file.number, SECTOR, STRIDE, positions, out, np.arange(len(positions))) == good
    assert queue.read(log._file.number, SECTOR, STRIDE, positions[:good], out, np.arange(good)) == good, (
        "none is in flight"
    )
    np.testing.assert_array_equal(out[:good], expected(positions[:good]))
    with pytest.raises(HeterpsError):
        log._read_scattered(positions, np.arange(len(positions)), out)


def test_a_disk_without_sectors_is_read_by_pages(log: RowLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first read fails and is repeated; nobody tries again."""
    if disk_queue() is None:
        pytest.skip("the kernel has no queue for reads")
    units, read = [], DiskQueue.read

    def picky(self: DiskQueue, file: int, unit: int, *rest: Any) -> int:
        units.append(unit)
        return 0 if unit < PAGE else read(self, file, unit, *rest)

    monkeypatch.setattr(DiskQueue, "read", picky)
    monkeypatch.setattr(log, "_unit", SECTOR)
    positions = np.arange(0, ROWS // 2, 997)
    for _ in range(2):
        out = np.zeros((len(positions), STRIDE), np.uint32)
        log._read_scattered(positions, np.arange(len(positions)), out)
        np.testing.assert_array_equal(out, expected(positions))
    assert units == [SECTOR, PAGE]


def test_a_child_process_has_a_queue_of_its_own(log: RowLog) -> None:
    if disk_queue() is None:
        pytest.skip("the kernel has no queue for reads")
    positions = np.arange(0, ROWS // 2, 499)
    pid = os.fork()
    if not pid:
        out = np.zeros((len(positions), STRIDE), np.uint32)
        found = disk_queue()
        assert found is not None
        done = found.read(log._file.number, SECTOR, STRIDE, positions, out, np.arange(len(positions)))
        os._exit(int(done != len(positions) or not (out == expected(positions)).all()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_log_in_a_folder_of_any_kind(tmp_path: Path) -> None:
    """Rows that were appended and are not on disk yet come from memory."""
    made = RowLog(STRIDE, tmp_path, 1 << 20)
    rows = np.arange(100 * STRIDE, dtype=np.uint32).reshape(100, STRIDE)
    made.reserve(100)
    positions = made.append(rows)
    np.testing.assert_array_equal(made.read(positions[::-1].copy()), rows[::-1])


def test_threads_give_their_queues_back(log: RowLog) -> None:
    """Few rows are read through a queue of the thread that wants them; the system has a limited number of queues."""
    if disk_queue() is None:
        pytest.skip("the kernel has no queue")
    made: list[weakref.ref[DiskQueue]] = []

    def read() -> None:
        positions = np.arange(0, ROWS, ROWS // 10)
        np.testing.assert_array_equal(log.read(positions), expected(positions))
        queue = disk_queue()
        assert queue is not None
        made.append(weakref.ref(queue))

    before = int(Path("/proc/sys/fs/aio-nr").read_text())
    for _ in range(50):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    gc.collect()
    assert len(made) == 50
    assert not any(queue() for queue in made)
    assert int(Path("/proc/sys/fs/aio-nr").read_text()) < before + 25 * DEPTH, "others may make some meanwhile"
