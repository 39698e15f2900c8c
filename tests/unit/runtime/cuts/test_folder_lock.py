"""One run a checkpoint folder; a dead holder is not in the way."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

import heterps as hps
from heterps.errors import CheckpointError
from heterps.runtime.cuts.folder_lock import LOCK, FolderLock
from heterps.testing.small_model import data, graph

HOLD = """import sys
from heterps.runtime.cuts.folder_lock import FolderLock
held = FolderLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_named(tmp_path, holder):
    with pytest.raises(CheckpointError, match=rf"in use by process {holder.pid} on {socket.gethostname()} \(since 2"):
        FolderLock(tmp_path)


def test_a_killed_holder_is_not_in_the_way(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).exists()
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_a_holder_on_another_machine_is_believed(tmp_path):
    (tmp_path / LOCK).write_text('{"host": "elsewhere", "pid": 7, "start": "2026-01-01T00:00:00+00:00"}')
    with pytest.raises(CheckpointError, match=r"process 7 on elsewhere .* remove .*heterps-lock"):
        FolderLock(tmp_path)
    (tmp_path / LOCK).unlink()
    FolderLock(tmp_path).close()


def test_a_dead_container_of_this_machine_is_not_in_the_way(tmp_path):
    with FolderLock(tmp_path):
        left = json.loads((tmp_path / LOCK).read_text()) | {"host": "container-a", "pid": 1}
    (tmp_path / LOCK).write_text(json.dumps(left))
    FolderLock(tmp_path).close()


@pytest.mark.parametrize("text", [b"", b"\xff{", b"[1]", b'{"host": 1}', b"[" * 100_000])
def test_a_torn_lock_is_taken_over(tmp_path, text):
    (tmp_path / LOCK).write_bytes(text)
    FolderLock(tmp_path).close()


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    (tmp_path / LOCK).symlink_to("/dev/null")
    with pytest.raises(CheckpointError, match="cannot lock"):
        FolderLock(tmp_path)


def test_closing_twice_does_not_free_what_another_has_taken(tmp_path):
    first = FolderLock(tmp_path)
    first.close()
    with FolderLock(tmp_path):
        first.close()
        with pytest.raises(CheckpointError, match="in use"):
            FolderLock(tmp_path)


def test_two_sessions_cannot_write_to_one_folder(tmp_path):
    plan = hps.Plan.fused(graph(4), batch_size=64)
    folder = tmp_path / "run"
    with hps.launch(plan, engine="inline", checkpoint=folder) as session:
        for _ in session.train(data()):
            pass
        session.save(folder)  # its own
        with pytest.raises(CheckpointError, match="in use by process"):
            hps.launch(plan, engine="inline", checkpoint=folder)
        with hps.launch(plan, engine="inline") as other, pytest.raises(CheckpointError, match="in use by process"):
            other.save(folder)
    with hps.launch(plan, engine="inline", checkpoint=folder, resume=folder):
        pass


def test_a_launch_that_fails_gives_the_folder_back(tmp_path, monkeypatch):
    def fail(*args, **rest):
        with pytest.raises(CheckpointError):
            FolderLock(tmp_path)  # it was taken by then
        raise MemoryError("no engine today")

    monkeypatch.setattr("heterps.launching.make_engine", fail)
    plan = hps.Plan.fused(graph(4), batch_size=64)
    with pytest.raises(MemoryError, match="no engine today"):
        hps.launch(plan, engine="inline", checkpoint=tmp_path)
    FolderLock(tmp_path).close()


def test_a_disk_that_takes_no_lock_is_told_and_left_as_it_was(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(CheckpointError, match=f"cannot lock {tmp_path}: No space left on device"):
        FolderLock(tmp_path)
    assert not list(tmp_path.iterdir())
