"""Ask a library that may not answer: HiGHS 1.12 obeys no time limit while it simplifies, which may never end.

The call is made in a thread of its own, that is left alone where no answer comes in time; the process ends without it.
So a signal, too, is answered at once. There is one such thread for each that asks, as HiGHS keeps threads of its own
for each that it is called from.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from heterps.planner.solve.effort import UndecidedError

__all__ = ["answered"]

Answer = TypeVar("Answer")
_Asked = tuple[Callable[[], Any], "Future[Any]"]


class _Aside(threading.local):
    """The thread that answers whoever asks here, and what it is asked."""

    thread: threading.Thread | None = None
    asked: queue.SimpleQueue[_Asked]

    def ask(self, call: Callable[[], Answer]) -> Future[Answer]:
        if self.thread is None or not self.thread.is_alive():
            self.asked = queue.SimpleQueue()
            self.thread = threading.Thread(target=_answer, args=(self.asked,), daemon=True, name="aside")
            self.thread.start()
        answer: Future[Answer] = Future()
        self.asked.put((call, answer))
        return answer


_ASIDE = _Aside()


def _answer(asked: queue.SimpleQueue[_Asked]) -> None:
    while True:
        call, answer = asked.get()
        try:
            answer.set_result(call())
        except BaseException as error:  # whoever asked is told
            answer.set_exception(error)


def answered(call: Callable[[], Answer], seconds: float) -> Answer:
    """Return what a call does, in a thread of its own.

    Raises
    ------
    UndecidedError
        If it takes longer than so many seconds.
    """
    try:
        return _ASIDE.ask(call).result(seconds)
    except TimeoutError:
        _ASIDE.thread = None
        raise UndecidedError(f"no answer within {seconds:g} s") from None
