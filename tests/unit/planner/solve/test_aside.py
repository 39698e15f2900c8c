"""What is asked aside is answered, or not waited for."""

import os
import threading
import time

import pytest

from heterps.planner.solve.aside import answered
from heterps.planner.solve.effort import UndecidedError


def test_the_answer_comes_from_one_thread_that_is_another():
    first, second = (answered(threading.get_ident, 60.0) for _ in range(2))
    assert first == second != threading.get_ident()


def test_a_mistake_is_that_of_whoever_asks():
    with pytest.raises(ZeroDivisionError):
        answered(lambda: 1 / 0, 60.0)
    assert answered(lambda: 2, 60.0) == 2


def test_what_does_not_answer_is_left_alone():
    go_on = threading.Event()
    with pytest.raises(UndecidedError, match="no answer"):
        answered(go_on.wait, 0.05)
    assert answered(lambda: 2, 60.0) == 2  # by another thread
    go_on.set()


def test_each_thread_has_one_of_its_own():
    found = []
    both = threading.Barrier(2)
    asking = [
        threading.Thread(target=lambda: found.append(answered(lambda: (both.wait(60), threading.get_ident())[1], 60.0)))
        for _ in range(2)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(set(found)) == 2


def test_a_process_that_was_forked_asks_anew():
    assert answered(lambda: 1, 60.0) == 1
    child = os.fork()
    if not child:
        os._exit(answered(lambda: 7, 20.0))
    deadline = time.monotonic() + 60
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 7
