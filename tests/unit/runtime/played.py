"""All the ways in which Dask can answer, played; each made anew, as a raised error keeps its traceback."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from distributed import CancelledError, KilledWorker
from distributed.client import ClosedClientError, FutureCancelledError
from distributed.comm import CommClosedError
from distributed.core import RPCClosed
from distributed.scheduler import NoValidWorkerError


def killed() -> KilledWorker:
    return KilledWorker("key", SimpleNamespace(address="tcp://w"), 3)


ANSWERS: dict[str, Callable[[], BaseException]] = {
    "cancelled": lambda: CancelledError("key"),
    "released": lambda: FutureCancelledError("key", "released"),
    "asyncio cancelled": asyncio.CancelledError,
    "concurrent cancelled": concurrent.futures.CancelledError,
    "killed worker": killed,
    "no valid worker": lambda: NoValidWorkerError("key", set(), {"w"}, {}, 1.0),
    "closed comm": lambda: CommClosedError("in <TCP>: Stream is closed"),
    "closed rpc": lambda: RPCClosed("RPC Closed"),
    "closed client": lambda: ClosedClientError("Client is closed"),
    "restarted scheduler": lambda: KeyError("heterps-Thing-1"),
    "reset connection": lambda: ConnectionResetError(104, "Connection reset by peer"),
    "closed loop": lambda: RuntimeError("IOLoop is closed"),
    "timeout of its own": lambda: TimeoutError("timed out during handshake"),
    "sync's bug": lambda: UnboundLocalError("cannot access local variable 'result'"),
    "assertion": AssertionError,
    "attribute": lambda: AttributeError("'NoneType' object has no attribute 'send'"),
    "type": lambda: TypeError("'NoneType' object is not subscriptable"),
    "value": lambda: ValueError("too many values to unpack"),
    "index": lambda: IndexError("pop from an empty deque"),
    "stop": lambda: EOFError(),
}


class Pending:
    """An answer that is there after a while: a value or an error; plays Dask's blocking and its awaitable face."""

    def __init__(self, after_s: float = 0.0, error: BaseException | None = None) -> None:
        self.after_s, self.error = after_s, error

    def done(self) -> bool:
        return self.after_s <= 0

    def result(self, timeout: float | None = None) -> str:
        if timeout is not None and timeout < self.after_s:
            self.after_s -= timeout
            threading.Event().wait(timeout)
            raise TimeoutError
        return self._out()

    def __await__(self) -> Any:
        yield from asyncio.sleep(self.after_s).__await__()
        return self._out()

    def _out(self) -> str:
        if self.error is not None:
            raise self.error
        return "answer"
