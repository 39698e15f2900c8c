"""What an attempt takes, and that it lets go of what it held when it has ended."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from heterps.data import Batch
from heterps.protocol import Async, BatchKey, Mode, Sync
from heterps.protocol.words import instructions as do
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.messages import Ask, Pull, Push
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled
from heterps.runtime.batch.reading import Reading
from heterps.runtime.wire.packing import pack_reply, unpack_reply
from heterps.runtime.workers.attempt import Attempt
from heterps.runtime.workers.shard_host import ShardHost
from heterps.testing.small_model import columns, graph


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("late", [False, True])
def test_events_that_nobody_handles_keep_nothing(late: bool) -> None:
    class Bench:
        """Stands for a workbench: only its life matters here."""

        class copy:  # noqa: N801
            leave = staticmethod(lambda attempt, terms, whole: None)

    bench: Any = Bench()
    run = do.RunSplit(5, 5, "w", 0, 0, 0, 0, 0, None, 0, (0, 0), Layout(1, (1,), (1,), (0,)))
    attempt = Attempt(run, Async(), Reading(None, 0), bench, lambda copy: None, lambda event: None)  # type: ignore[arg-type, return-value]
    held = weakref.ref(bench)
    if late:
        attempt.close()
    attempt.handle(do.Cancel(5))
    attempt.between(lambda: None)
    attempt.close()
    del attempt, bench
    assert held() is None


class _Batches:
    """Reads two batches."""

    ended = False

    def __init__(self, start: int) -> None:
        self._left = iter([Batch(BatchKey(0, 0, n), 64, columns(64, n)) for n in range(start, 2)])

    def __next__(self) -> Batch:
        return next(self._left)

    def close(self) -> None:
        self._left = iter([])


class _Copy:
    """A copy of the one shard host, far away: it writes to the caller's buffers when its answer arrives."""

    is_far = True

    def __init__(self, job: Job, number: int) -> None:
        self.host = ShardHost(job, 0, number, lambda event: None)
        self.host.deliver(do.CreateHost(number, 0, "server", number, 0, job.owned(0)))
        self.late, self.pushed = list[Any](), list[Any]()

    def send(self, request: Any, payload: Any, done: Any, failed: Any) -> None:
        if isinstance(request, Push):
            self.pushed.append({name: rows.values.copy() for name, rows in payload.rows.items()})
        there = payload
        if isinstance(request, Pull):
            there = type(payload)(payload.ids, dense=np.empty(0, np.float32))  # as it comes over the wire

        def answer(reply: Any, pulled: Pulled | None) -> None:
            told = pack_reply(reply, pulled)  # the rows as they are now
            self.late.append(lambda: done(*unpack_reply(told, payload if isinstance(request, Pull) else None)))

        self.host.request(request, there, answer)


@pytest.mark.parametrize("mode", [Async(depth=1), Sync()], ids=["async", "sync"])
def test_rows_that_come_late_from_a_copy_that_was_replaced_land_nowhere(mode: Mode) -> None:
    """They would be taken for those of the batch that has the buffers then, whenever they come."""
    calm = _pushes(mode, late_after=99)
    for answers in range(8):
        for wanted, found in zip(calm, _pushes(mode, late_after=answers), strict=True):
            for name, gradients in wanted.items():
                np.testing.assert_array_equal(found[name], gradients, err_msg=f"{name}, after {answers} answers")


def _pushes(mode: Mode, late_after: int) -> list[dict[str, Any]]:
    """Return the gradients of two batches. A copy is replaced when it was asked for the rows of the first one; its
    answer comes after some of the other copy's.
    """
    job = Job(Model(graph()), 64, mode, hosts=1)
    old, new = _Copy(job, 1), _Copy(job, 2)
    run = do.RunSplit(5, 5, "w", 0, 0, 0, 0, 0, None, 0, (0, 0), Layout(1, (1,), (1,), job.owners))
    links: Any = {1: old, 2: new}
    attempt = Attempt(run, mode, Reading(_Batches, 0), Workbench(job), links.__getitem__, lambda event: None)  # type: ignore[arg-type]
    attempt.start()
    old.late.pop()()  # its word on where the Split stands
    attempt.pump(100)
    (rows,) = old.late
    attempt.handle(do.Announce(5, Layout(2, (2,), (2,), job.owners)))
    for answers in range(8):
        attempt.pump(100)
        if new.late:
            new.late.pop(0)()
        if answers == late_after:  # the answer before is there, and not yet taken
            rows()
    attempt.close()
    assert len(new.pushed) == 2
    return new.pushed


class _Batch(_Batches):
    """More of them."""

    def __init__(self, start: int) -> None:
        self._left = iter([Batch(BatchKey(0, 0, n), 64, columns(64, n)) for n in range(start, 5)])


def _with_one_copy(job: Job, copy: Any) -> tuple[Attempt, Workbench]:
    """An attempt at a Split whose only shard host is this copy."""
    run = do.RunSplit(5, 5, "w", 0, 0, 0, 0, 0, None, 0, (0, 0), Layout(1, (1,), (1,), job.owners))
    links, bench = {1: copy}, Workbench(job)
    return Attempt(run, job.mode, Reading(_Batch, 0), bench, links.__getitem__, lambda event: None), bench  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("is_far", "comes", "wanted"),
    [
        (True, "in backward", [0, 1, "look", "pull 3", 2]),
        (True, "in forward", [0, "pull 3", 1, "look", 2]),
        (False, "in backward", [0, 1, 2, "look", "pull 3"]),
    ],
)
def test_what_came_while_a_batch_was_computed_is_looked_at_before_the_next(
    is_far: bool, comes: str, wanted: list[Any]
) -> None:
    """An acknowledgement lets the next batch be asked for: the sooner, the less it is waited for where answers travel,
    between forward and backward of the batch that is being computed. Nobody looks at that batch before it is.

    In one process nothing travels, and batches are computed on rows that are as new as can be.
    """
    job = Job(Model(graph()), 64, Async(depth=3), hosts=1)
    copy, done = _Copy(job, 1), list[Any]()
    copy.is_far = is_far
    attempt, bench = _with_one_copy(job, copy)
    send, compute = copy.send, bench.compute

    def sent(request: Any, *rest: Any) -> None:
        if isinstance(request, Pull) and request.key.n > 2:
            done.append(f"pull {request.key.n}")
        send(request, *rest)

    def come(work: Any, when: str) -> None:
        if when == comes and copy.late and work.key.n == 1:
            attempt.between(lambda: done.append("look"))
            copy.late.pop(0)()  # the acknowledgement of the first comes meanwhile

    def computed(work: Any, ahead: Any, between: Any) -> None:
        def halfway() -> None:
            come(work, "in forward")
            between()

        assert (between is not None) == is_far
        compute(work, ahead, halfway if is_far else None)
        done.append(work.key.n)
        come(work, "in backward")

    copy.send, bench.compute = sent, computed  # type: ignore[method-assign]
    attempt.start()
    copy.late.pop()()  # its word on where the Split stands
    attempt.pump(1)
    assert len(copy.late) == 3  # rows of three batches
    while copy.late:
        copy.late.pop(0)()
    attempt.pump(100)
    attempt.close()
    assert done[:5] == wanted


@pytest.mark.parametrize("late", [(), (Push,), (Ask,)], ids=["nothing", "pushes", "the first word"])
def test_rows_are_asked_for_ahead_only_where_answers_are_waited_for(late: tuple[type, ...]) -> None:
    """One answer that was waited for is enough: a backup may hold up acknowledgements and nothing else."""
    job = Job(Model(graph()), 64, Async(depth=2), hosts=1)
    copy, ahead = _Copy(job, 1), list[int]()
    copy.is_far = False
    attempt, _ = _with_one_copy(job, copy)
    send = copy.send

    def sent(request: Any, *rest: Any) -> None:
        if isinstance(request, Pull):
            acknowledged = len(copy.pushed) - len(copy.late)
            ahead.append(request.key.n - acknowledged)
        send(request, *rest)
        if not isinstance(request, late):
            copy.late.pop()()

    copy.send = sent  # type: ignore[method-assign]
    attempt.start()
    while attempt.pump(100) or copy.late:
        if copy.late:
            copy.late.pop(0)()
    attempt.close()
    assert len(ahead) == 5
    assert max(ahead) == (1 if late else 0)
