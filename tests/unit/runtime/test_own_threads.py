"""No thread of ours dies in silence."""

import ast
import logging
import pathlib
import threading
from queue import SimpleQueue

import pytest

import heterps.runtime
from heterps.runtime.own_threads import logged, start_thread, start_timer


def fall(text: str = "fell") -> None:
    raise ValueError(text)


def test_what_a_thread_raises_reaches_its_owner() -> None:
    told: SimpleQueue[Exception] = SimpleQueue()
    start_thread("test", fall, "down", failed=told.put)
    assert str(told.get(timeout=5)) == "down"
    start_timer(0.01, fall, failed=told.put)
    assert str(told.get(timeout=5)) == "fell"


def test_an_owner_that_cannot_be_told_leaves_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def failed(error: Exception) -> None:
        done.set()
        raise RuntimeError("nobody is here")

    with caplog.at_level(logging.ERROR, "heterps"):
        start_thread("test", fall, failed=failed)
        assert done.wait(5)
        for thread in threading.enumerate():
            if thread.name == "heterps-test":
                thread.join(5)
    assert "'test'" in caplog.text
    assert "ValueError('fell')" in caplog.text
    assert "nobody is here" in caplog.text


def test_a_thread_of_no_run_tells_the_log(caplog: pytest.LogCaptureFixture) -> None:
    logged("warming up")(ValueError("too cold"))
    assert "warming up failed: too cold" in caplog.text


def test_threads_of_the_runtime_are_started_in_one_way_only() -> None:
    root = pathlib.Path(heterps.runtime.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in ("Thread", "Timer", "start_new_thread"))
        or (isinstance(node, ast.Name) and node.id in ("Thread", "Timer"))
    }
    assert found == {"own_threads.py"}
