"""Forward only: the rows of the next batches are read while one is computed, several at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from heterps.data import Batch
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.bench import Read, Workbench
from heterps.runtime.batch.payload import Wanted

__all__ = ["with_rows"]


def with_rows(bench: Workbench, reads: Sequence[Read], batches: Iterator[Batch]) -> Generator[BatchWork, None, None]:
    """Yield batches in order, each with its rows; the caller is done with one when it asks for the next.

    Parameters
    ----------
    bench
        Of the calling thread: others read only.
    reads
        Ways to the shard hosts. Each carries one batch at a time, and what it brought lies in its buffers until it is
        used again; with a single one the calling thread reads.
    batches
        Valid until ``len(reads)`` more were asked for.
    """
    if len(reads) == 1:
        for batch in batches:
            work = bench.begin(batch)
            bench.pull(work, reads[0])
            yield work
        return
    with ThreadPoolExecutor(len(reads), "rows-ahead") as threads:
        waiting: deque[Future[BatchWork]] = deque()
        for n, batch in enumerate(batches):
            if len(waiting) == len(reads):  # the oldest has this batch's way
                yield waiting.popleft().result()
            work = bench.begin(batch)
            waiting.append(threads.submit(_pulled, work, bench.wants(work), reads[n % len(reads)]))
        while waiting:
            yield waiting.popleft().result()


def _pulled(work: BatchWork, wants: Mapping[int, Wanted], read: Read) -> BatchWork:
    work.pulled |= {host: read(host, wanted) for host, wanted in wants.items()}
    return work
