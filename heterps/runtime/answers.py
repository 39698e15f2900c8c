"""The one place that waits for Dask: what comes back is a value, an error of our own code, or one named ClusterError.

Code that a worker runs for us raises nothing but HeterpsErrors (:func:`told`), and Dask raises none. So the kind of an
error says whose it is, whatever Dask's own ways to fail are: cancelled, released, killed, closed, or a bug in it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from distributed import Client, Future, get_worker
from distributed.protocol import to_serialize

from heterps.errors import ClusterError, HeterpsError, RunError
from heterps.runtime.config import settings

__all__ = ["actor_call", "answer", "asking", "cancel", "reason_of", "sending", "submitted", "told"]

_T = TypeVar("_T")
_LOOK_S = 0.5  # between looks whether the other side is still there

Lost = Callable[[str], ClusterError]


def answer(
    client: Client,
    ask: Callable[[], Awaitable[_T]],
    lost: Lost,
    limit_s: float,
    *,
    seen: Callable[[], float] | None = None,
    patient: bool = False,
) -> _T:
    """Ask Dask once and wait for what comes back.

    The question runs as one task of the client's loop. Looking at it never ends it: Dask shares one fetch among all who
    wait at the moment, and a wait of its own that runs out takes the fetch away from the others.

    Parameters
    ----------
    client
        Client of the cluster.
    ask
        Asks; called in the loop.
    lost
        ``lost(reason)`` is the error that names what did not answer to what.
    limit_s
        How long to wait.
    seen
        Says when the other side was last heard of; raises a ClusterError when it is gone.
    patient
        Whether the limit is for the silence of the other side instead.

    Raises
    ------
    ClusterError
        For everything but a value and an error of our own code.
    """
    with asking(lost):
        pending = _begun(client, ask, client.loop)
    since, heard = monotonic(), None
    try:
        while True:
            with asking(lost):
                left = max(0.0, since + limit_s - monotonic())
                try:
                    return pending.result(timeout=min(left, _LOOK_S))
                except TimeoutError:
                    if pending.done():  # it is the answer
                        return pending.result(timeout=0)
            looked = monotonic()
            heard, before = seen() if seen is not None else None, heard
            if patient:  # a scheduler that is slow to say what it heard is not the silence of the other side
                since += max(0.0, monotonic() - looked - _LOOK_S)
            if patient and heard != before:
                since = monotonic()
            if monotonic() - since >= limit_s and not pending.done():
                raise lost(f"{'silence' if patient else 'no answer'} for {limit_s:g} s")
    finally:
        pending.cancel()


def actor_call(client: Client, actor: Any, method: str, *args: Any) -> Awaitable[Any]:
    """Call a method of an actor without waiting.

    Dask's own call sets a result for an OSError only: if its handler on the worker raises, as for an actor that was
    released there, the error is logged in a loop and whoever waits is never told. Here it is the answer.
    """

    async def execute() -> Any:
        words = {"function": method, "actor": actor.key, "args": [to_serialize(arg) for arg in args], "kwargs": {}}
        reply = await actor._worker_rpc.actor_execute(**words)
        if reply["status"] == "OK":
            return reply["result"]
        raise reply["exception"]

    return _Begun(_begun(client, execute, actor._io_loop))


class _Begun:
    """What was begun in a loop, to be awaited in any; nobody who stops waiting ends it."""

    def __init__(self, begun: concurrent.futures.Future[Any]) -> None:
        self._begun = begun

    def __await__(self) -> Generator[Any, None, Any]:
        answer = asyncio.wrap_future(self._begun)
        # An error that comes when nobody waits any more is nobody's: asyncio would print it with its traceback.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return asyncio.shield(answer).__await__()


def _begun(client: Client, ask: Callable[[], Awaitable[_T]], loop: Any) -> concurrent.futures.Future[_T]:
    async def asked() -> _T:
        return await ask()

    question = asked()
    try:
        with client.as_current():  # what comes back, such as an actor, binds to the client that is current
            return asyncio.run_coroutine_threadsafe(question, loop.asyncio_loop)
    except BaseException:
        question.close()
        raise


@contextmanager
def asking(lost: Lost) -> Iterator[None]:
    """Give every error of Dask in the block the one name; KeyboardInterrupt and SystemExit are the caller's own."""
    try:
        yield
    except HeterpsError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        raise lost(reason_of(error)) from error


@contextmanager
def sending(what: str, lost: Lost) -> Iterator[None]:
    """Like :func:`asking`, for tasks on their way. What cannot be pickled is no fault of the cluster's."""
    try:
        with asking(lost):
            yield
    except ClusterError as error:
        if isinstance(error.__cause__, TypeError | pickle.PicklingError):
            raise RunError(f"{what} cannot be sent to a worker: {error.__cause__}") from error
        raise


def submitted(client: Client, lost: Lost, function: Callable[..., Any], *args: Any, **options: Any) -> Future:
    """Submit a task under a key of its own."""
    with sending(options["key"], lost):
        return client.submit(function, *args, pure=False, **options)


def cancel(client: Client, futures: Sequence[Future]) -> None:
    """Cancel tasks; those of a cluster that cannot be told are gone."""
    with suppress(ClusterError):
        answer(client, lambda: client.cancel(futures), ClusterError, settings().call_s)


def reason_of(error: BaseException) -> str:
    """Return kind and message; many of Dask's errors have no message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def told(what: str, function: Callable[..., _T], *args: Any) -> _T:
    """Runs on a worker: call, and let only a HeterpsError that can travel leave, so that nobody takes it for Dask's."""
    try:
        return function(*args)
    except Exception as error:
        if isinstance(error, HeterpsError) and _can_travel(error):
            raise
        named = RunError(f"{what} on worker {_here()} failed: {reason_of(error)}")
        named.add_note(f"There:\n{''.join(traceback.format_exception(error))}")
        raise named from error


def _can_travel(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


def _here() -> str:
    try:
        worker = get_worker()
    except ValueError:
        return "of this process"
    return f"{worker.name} at {worker.address}"
