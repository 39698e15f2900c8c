"""A caller in another process who waits for what a state machine decides later."""

from __future__ import annotations

import threading
from contextlib import suppress

from heterps.protocol.words.messages import Reply
from heterps.runtime.batch.message_memory import AnswerRoom
from heterps.runtime.batch.payload import Pulled, Refreshed
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_reply

__all__ = ["Waiter"]


class Waiter:
    """Takes the answer; the thread of the caller's connection waits for it."""

    def __init__(self, half: bool = False, room: AnswerRoom | None = None) -> None:
        self._half = half  # whether it is to travel as float16
        self._room = room  # that its arrays may be in
        self.gone = False  # nobody waits any more: rows need not be read for it
        self._waits = threading.Lock()  # held until there is an answer: far less than an Event, once a request
        self._waits.acquire()
        self._answer = Message({"wait": True})  # until there is another

    def __call__(self, reply: Reply, pulled: Pulled | Refreshed | None) -> None:
        """Take the answer."""
        self._answer = pack_reply(reply, pulled, self._half)
        with suppress(RuntimeError):  # there was one before
            self._waits.release()

    def wait(self, seconds: float) -> Message:
        """Return the answer, or the word that it is not there yet."""
        self.gone = not self._waits.acquire(timeout=seconds)
        if self.gone and self._room is not None:  # whoever answers now is too late
            self._room.close(late=True)
        return self._answer
