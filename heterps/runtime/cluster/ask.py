"""Run a function on several workers at once, with a limit of time and an error that says whose answer is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Client

from heterps.errors import ClusterError, HeterpsError
from heterps.runtime.answers import answer
from heterps.runtime.config import settings

__all__ = ["ask_workers"]


def ask_workers(
    client: Client, function: Callable[..., Any], workers: Mapping[str, str], *args: Any, timeout_s: float | None = None
) -> dict[str, Any]:
    """Call ``function(*args)`` on each worker outside of its task queue, and return the results by address.

    Parameters
    ----------
    client
        Client of the cluster.
    function
        A function of an importable module; a coroutine function runs on the worker's loop.
    workers
        Names by address.
    timeout_s
        Time for each answer; None: ``heterps.timeouts.connect``.
    """
    limit = settings().connect_s if timeout_s is None else timeout_s

    async def ask(address: str) -> Any:
        reply = await asyncio.wait_for(client.run(function, *args, workers=[address]), limit)
        return reply[address]

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*(ask(address) for address in workers), return_exceptions=True)

    def lost(reason: str) -> ClusterError:
        return ClusterError(f"workers {', '.join(workers.values())} were asked without answer: {reason}")

    # Each question has its own limit; the one around them is for a loop that does not run.
    answers = dict(zip(workers, answer(client, ask_all, lost, limit + settings().call_s), strict=True))
    for address, found in answers.items():
        if isinstance(found, HeterpsError):  # Dask raises none: the function did
            raise found
        if isinstance(found, BaseException):
            raise ClusterError(_failure(workers[address], address, found, limit)) from found
    return answers


def _failure(name: str, address: str, error: BaseException, limit: float) -> str:
    where = f"worker {name} at {address}"
    if isinstance(error, TimeoutError):
        return f"{where} did not answer within {limit:g} s: it is frozen, overloaded or cut off"
    if isinstance(error, ModuleNotFoundError):
        return f"{where} cannot import {error.name}: install the same packages there as here"
    return f"{where} failed: {type(error).__name__}: {error}"
