"""Who works on which partition of a group: the calling thread, or threads that each own a range of logical shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from heterps.tables.live.partition import RowPartition
from heterps.tables.live.tiered import TieredPartition
from heterps.tables.live.waiting_rows import WaitingPartition

__all__ = ["Owners", "Partition"]

T = TypeVar("T")
Partition = RowPartition | WaitingPartition | TieredPartition
#: Ids from which waking another thread costs less than its help brings.
WORTH_IT = 4096


class Owners:
    """The threads of a shard host. Thread ``p`` owns partition ``p`` of every group; the caller works for the first.

    A partition's rows are changed by one thread at a time, in the order of the calls, so results do not depend on the
    number of threads.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pools = [ThreadPoolExecutor(1, thread_name_prefix="heterps-owner") for _ in range(1, threads)]

    def run(
        self,
        partitions: Sequence[Partition],
        bounds: npt.NDArray[np.int64],
        work: Callable[[Partition, int, int], T],
    ) -> list[T]:
        """Call ``work`` with ranges of positions of every partition, its lock held; return what it returned."""
        jobs = [(part, lo, hi) for part, (lo, hi) in zip(partitions, pairwise(bounds.tolist()), strict=True)]
        if bounds[-1] < WORTH_IT or len(jobs) > self.threads:
            return [result for job in jobs for result in _in_turns(job, work)]
        later = [pool.submit(_in_turns, job, work) for pool, job in zip(self._pools, jobs[1:], strict=False)]
        try:
            first = _in_turns(jobs[0], work)
        finally:
            others = [future.exception() for future in later]  # nobody works on for a call that has ended
        for error in filter(None, others):
            raise error
        return [*first, *(result for future in later for result in future.result())]


def _in_turns(job: tuple[Partition, int, int], work: Callable[[Partition, int, int], T]) -> list[T]:
    """Work on a few thousand positions at a time, then others have a turn."""
    part, first, last = job
    results = []
    for lo in range(first, last, part.turn):
        with part.lock:
            results.append(work(part, lo, min(lo + part.turn, last)))
    return results
