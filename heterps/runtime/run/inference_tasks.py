"""The Splits of one inference as tasks of the io pool: results in order, and none is waited for on a silent worker."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from distributed import Client, Future, wait

from heterps.data import Split
from heterps.errors import ClusterError
from heterps.runtime.answers import answer, cancel
from heterps.runtime.batch.inference import Inferred
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.config import settings
from heterps.runtime.run.patience import Patience

__all__ = ["InferenceTasks"]

_T = TypeVar("_T")
_log = logging.getLogger("heterps")


class _FallenSilentError(ClusterError):
    """Workers were not heard of for long, while others were."""

    def __init__(self, workers: Collection[str]) -> None:
        super().__init__(f"not heard of: {', '.join(sorted(workers))}")
        self.workers = set(workers)


class InferenceTasks:
    """Runs Splits on workers; ends all that is left with the block.

    Parameters
    ----------
    client
        Client of the cluster.
    splits, workers
        What is to be run, and where.
    submit
        ``submit(split, workers, again)`` submits the task of a Split, under another key each time.
    give_up
        Told of each worker that was not heard of for ``heterps.timeouts.call``.
    """

    def __init__(
        self,
        client: Client,
        splits: Sequence[Split],
        workers: Sequence[str],
        submit: Callable[[Split, Sequence[str], int], Future],
        give_up: Callable[[str], None],
    ) -> None:
        self._client, self._splits, self._workers = client, splits, list(workers)
        self._submit, self._on_silent = submit, give_up
        self._futures: list[Future] = []
        self._had = 0  # Splits whose results were handed on: Dask forgets a result that nobody holds
        self._again = 0  # how often Splits were submitted again

    def __enter__(self) -> InferenceTasks:
        try:
            for split in self._splits:
                self._futures.append(self._submit(split, self._workers, 0))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._futures[self._had :]:  # nobody waits for them any more
            cancel(self._client, self._futures[self._had :])
        self._futures = []

    def results(self) -> Iterator[Inferred]:
        """Yield what each Split gives, in their order."""
        for n in range(len(self._splits)):
            found = self._waited(n, _value)
            self._had = n + 1
            yield found

    def kept(self) -> list[Future]:
        """Wait for all Splits, and return futures of what they gave, which stays where it is."""
        for n in range(len(self._splits)):
            self._waited(n, _end)
        found, self._futures = self._futures, []
        return found

    def _waited(self, n: int, ask: Callable[[Future], Awaitable[_T]]) -> _T:
        while True:
            try:
                return self._wait(n, ask)
            except _FallenSilentError as silent:
                self._go_on_without(silent.workers, n)

    def _wait(self, n: int, ask: Callable[[Future], Awaitable[_T]]) -> _T:
        """Wait as long as it takes while the workers are heard of, and one of them may begin something."""
        future, paused = self._futures[n], Patience(settings().workers_s)

        def seen() -> float:
            listed = identity_of(self._client)["workers"]
            there = {worker: listed[worker] for worker in self._workers if worker in listed}
            if not there:
                raise self._lost(n, "they are gone")
            paused.check(lambda: _all_paused(there))
            if future.status == "lost":
                raise self._lost(n, "Dask lost it")
            heard = {worker: float(told["last_seen"]) for worker, told in there.items()}
            newest = max(heard.values())
            silent = [worker for worker, when in heard.items() if newest - when >= settings().call_s]
            if silent:
                raise _FallenSilentError(silent)
            return newest

        return answer(
            self._client,
            lambda: ask(future),
            lambda why: self._lost(n, why),
            settings().call_s,
            seen=seen,
            patient=True,
        )

    def _lost(self, n: int, reason: str) -> ClusterError:
        workers = ", ".join(self._workers)
        return ClusterError(f"split {self._splits[n].index} was not inferred by workers {workers}: {reason}")

    def _go_on_without(self, silent: set[str], first: int) -> None:
        """Run on others what silent workers have, are at, or may yet be given."""
        self._workers = [worker for worker in self._workers if worker not in silent]
        for worker in silent:
            _log.warning("worker %s was not heard of for %g s: its Splits are run elsewhere", worker, settings().call_s)
            self._on_silent(worker)
        safe = self._safe()
        left = [n for n in range(first, len(self._splits)) if self._futures[n].key not in safe]
        cancel(self._client, [self._futures[n] for n in left])
        self._again += 1
        for n in left:
            self._futures[n] = self._submit(self._splits[n], self._workers, self._again)

    def _safe(self) -> set[Any]:
        """Return the tasks that workers have done, or are at, who are not silent."""

        async def ask() -> tuple[Mapping[Any, Collection[str]], Mapping[str, Collection[Any]]]:
            return await self._client.who_has(self._futures), await self._client.processing(self._workers)

        done, running = answer(self._client, ask, ClusterError, settings().call_s)
        kept = {key for key, where in done.items() if set(where) & set(self._workers)}
        return kept | {key for keys in running.values() for key in keys}


async def _value(future: Future) -> Inferred:
    found: Inferred = await future
    return found


async def _end(future: Future) -> None:
    await wait(future)
    if future.status == "error":
        raise await future.exception()


def _all_paused(workers: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Say that nobody can begin anything, where it is so."""
    if any(worker.get("status") != "paused" for worker in workers.values()):
        return ()
    names = ", ".join(sorted(str(worker["name"]) for worker in workers.values()))
    return (f"an io worker that is not paused by Dask (at the limit of their memory: {names})",)
