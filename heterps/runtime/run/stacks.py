"""What our threads are doing, in this process and on workers: for the end of a run that stands still."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Mapping

from distributed import Client

from heterps import errors
from heterps.errors import ClusterError
from heterps.runtime.answers import answer

__all__ = ["all_stacks", "thread_stacks"]

_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__))
_FRAMES = 12
_WAIT_S = 5.0


def thread_stacks() -> str:
    """Return the stacks of threads that are in this package's code; those that do the same are counted."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found: dict[str, list[str]] = {}
    for ident, frame in sys._current_frames().items():
        frames = traceback.extract_stack(frame)
        if ident != threading.get_ident() and any(each.filename.startswith(_PACKAGE) for each in frames):
            found.setdefault("".join(traceback.format_list(frames[-_FRAMES:])), []).append(names.get(ident, "?"))
    return "\n".join(f"{' and '.join(sorted(set(who)))} ({len(who)}):\n{stack}" for stack, who in found.items())


def all_stacks(client: Client, workers: Mapping[str, str]) -> str:
    """Return the stacks of this process and of workers (names by address), as far as they answer."""

    async def ask(address: str) -> str:
        reply = await asyncio.wait_for(client.run(thread_stacks, workers=[address]), _WAIT_S)
        return str(reply[address])

    async def ask_all() -> list[str | BaseException]:
        return await asyncio.gather(*(ask(address) for address in workers), return_exceptions=True)

    try:
        replies = answer(client, ask_all, ClusterError, 2 * _WAIT_S)
    except ClusterError as error:
        replies = [error] * len(workers)
    parts = [("this process", thread_stacks())]
    parts += [(f"worker {name}", _said(reply)) for name, reply in zip(workers.values(), replies, strict=True)]
    return "\n".join(f"--- {who}\n{said}" for who, said in parts)


def _said(reply: str | BaseException) -> str:
    return reply if isinstance(reply, str) else f"no answer: {type(reply).__name__}: {reply}"
