"""The tasks of a run's attempts: one Dask task each, under a key that was never used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Client, Future

from heterps.data import Split
from heterps.errors import ClusterError, HeterpsError
from heterps.protocol.words import events as ev, instructions as do
from heterps.runtime.answers import answer, cancel, submitted
from heterps.runtime.config import settings
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.directory import Directory, Sent
from heterps.runtime.workers.io_actor import run_attempt

__all__ = ["SplitTasks"]


class SplitTasks:
    """The tasks of one run.

    Parameters
    ----------
    client, run
        Where they run, and under which name.
    arrivals
        Takes what became of them, for the run's thread.
    name
        ``name(worker)`` is what a user calls it.
    """

    def __init__(
        self, client: Client, run: str, arrivals: Arrivals, name: Callable[[str], str], directory: Directory
    ) -> None:
        self._client, self._run, self._arrivals, self._name = client, run, arrivals, name
        self._directory = directory
        self._tasks: dict[int, tuple[str, Future, Sent]] = {}  # of attempts neither done nor cancelled: where
        self._on: dict[str, set[int]] = {}  # these, by worker

    def begin(self, run: do.RunSplit, split: Split | None, rows: Mapping[str, Any], told_every_s: float) -> None:
        """Submit the task of an attempt; Dask has the rows that others hold brought to its worker first.

        ``told_every_s``: so often at most it says how far it is.
        """
        sent = self._directory.send(run.worker)
        key = f"heterps-split-{self._run}-{run.pass_}-{'end' if run.split is None else run.split}-{run.attempt}"
        future = submitted(
            self._client,
            lambda reason: self._untold(run, reason),
            run_attempt,
            self._run,
            run,
            split,
            sent.addresses,
            told_every_s,
            tuple(rows),
            *rows.values(),
            workers=[run.worker],
            allow_other_workers=False,
            key=key,
        )
        self._tasks[run.attempt] = (run.worker, future, sent)
        self._on.setdefault(run.worker, set()).add(run.attempt)
        future.add_done_callback(lambda done: self.done(run.attempt, done))

    def _untold(self, run: do.RunSplit, reason: str) -> ClusterError:
        return ClusterError(f"the cluster took no task for worker {self._name(run.worker)}: {reason}")

    def worker_of(self, attempt: int) -> str:
        """Return where an attempt runs; nowhere is the empty string."""
        return self._tasks[attempt][0] if attempt in self._tasks else ""

    def on(self, worker: str) -> set[int]:
        """Return the attempts that a worker was given."""
        return set(self._on.get(worker, ()))

    def forget(self, attempt: int) -> None:
        """Let go of a task; Dask cancels what nobody holds."""
        if attempt in self._tasks:
            worker, future, _ = self._tasks.pop(attempt)
            self._on[worker].discard(attempt)
            with suppress(Exception):
                future.release()

    def _finished(self, attempt: int) -> None:
        """Let go of a task that has ended: a run has a million of them, and Dask keeps what somebody holds."""
        if attempt in self._tasks:
            worker, _, sent = self._tasks[attempt]
            self._directory.has(worker, sent)
            self.forget(attempt)

    def left(self, worker: str) -> None:
        """Let go of the tasks of a worker that is gone."""
        for attempt in self.on(worker):
            self.forget(attempt)
        self._on.pop(worker, None)

    def close(self) -> None:
        """Cancel what is left."""
        tasks, self._tasks, self._on = self._tasks, {}, {}
        cancel(self._client, [future for _, future, _ in tasks.values()])

    # --- in threads of Dask

    def done(self, attempt: int, future: Future) -> None:
        """Deal with a task that ended, in a thread of Dask."""
        with self._arrivals.told_of_failure():
            if future.status == "finished":
                self._arrivals.post(partial(self._finished, attempt))
            elif future.status == "error":
                self._split_failed(attempt, self._error_of(attempt, future))
            elif (
                future.status in ("cancelled", "lost") and attempt in self._tasks
            ):  # what the run ends it forgets first
                self._arrivals.tell(ev.SplitFailed(attempt, f"Dask says it is {future.status}: rows it needs are gone"))

    def _error_of(self, attempt: int, future: Future) -> BaseException | None:
        """Return what the task raised, or the ClusterError that says why nobody knows."""

        def lost(reason: str) -> ClusterError:
            return ClusterError(f"what failed in attempt {attempt} cannot be told: {reason}")

        async def ask() -> BaseException | None:
            found: BaseException | None = await future.exception()
            return found

        try:
            return answer(self._client, ask, lost, settings().call_s)
        except ClusterError as error:
            return error

    def _split_failed(self, attempt: int, error: BaseException | None) -> None:
        """Raise a user's mistake as it was raised on the worker; anything else is tried again."""
        if isinstance(error, HeterpsError) and not isinstance(error, ClusterError):
            self._arrivals.fail(error)
        else:
            self._arrivals.tell(ev.SplitFailed(attempt, f"{type(error).__name__}: {error}"))
