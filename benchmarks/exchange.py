"""What it costs to pull and push one batch: CPU of the worker and of the shard host, by the way between them.

    python -m benchmarks.exchange [--rounds 3] [--batches 200] [--batch 1024] [--cold]

Wide & Deep of the peers' workload, one shard host in a process of its own, one caller. Nothing is computed: a batch is
routed, its rows and parameters are pulled and gradients of that size are pushed, through the same links as in training.
Either process gives memory back to the kernel as early as workers under a nanny of Dask do. The ways take turns;
``object`` is both in one process, what the tables themselves take.

One batch right after the other finds code and arrays in the caches. With ``--cold`` a process for each core multiplies
matrices meanwhile and every batch comes some time after the last, as in training: an exchange then takes up to twice
as much.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple

import numpy as np

import heterps as hps
from benchmarks.machine import cpu_of
from heterps.data import Batch
from heterps.models import wide_deep
from heterps.protocol.words import instructions as do
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Pull, Push
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.wire.links import DirectLink, HostLink, link_to_host
from heterps.runtime.wire.service import Address, Listener
from heterps.runtime.workers.shard_host import ShardHost

WAYS = {
    "object": {},
    "shared memory": {},
    "Unix socket": {"DASK_HETERPS__NETWORK__SHARED_MEMORY": "false"},
    "TCP": {"DASK_HETERPS__NETWORK__UNIX_SOCKETS": "false"},
}
WORKER = {"MALLOC_TRIM_THRESHOLD_": "65536"}  # what a nanny of Dask starts workers with
_WARM = 20  # batches before those that are measured
_COLD_S = 0.02  # between batches, when caches are to be cold
_MULTIPLY = "import numpy as np; a = np.ones((1024, 1024), np.float32)\nwhile True: a @ a"


class Cost(NamedTuple):
    """Milliseconds of a batch: CPU of the caller, CPU of the host, and by the clock."""

    caller: float
    host: float
    clock: float


def job(batch: int) -> Job:
    """Return what is trained."""
    rules = {"sparse": hps.SGD(lr=0.01), "dense": hps.SGD(lr=0.01)}
    return Job(Model(wide_deep(), **rules), batch, Async(2))


def host(given: Job) -> ShardHost:
    """Return a shard host with all tables, which serves."""
    made = ShardHost(given, 0, 1, lambda event: None)
    made.deliver(do.CreateHost(1, 0, "server", 1, 0, given.owned(0)))
    return made


def batches(size: int, count: int, slots: int = 26, ids: int = 100_000) -> list[Batch]:
    """Return batches of the peers' workload."""
    rng = np.random.default_rng(11)
    found = []
    for n in range(count):
        picks = np.minimum(rng.zipf(1.1, (size, slots)), ids * 50) % ids + np.arange(slots) * ids
        x = rng.standard_normal((size, 13), dtype=np.float32)
        columns = {"ids": picks.astype(np.uint64), "x": x, "y": np.zeros(size, np.float32)}
        found.append(Batch(BatchKey(0, 0, n), size, columns))
    return found


def exchange(bench: Workbench, link: HostLink, batch: Batch, n: int) -> None:
    """Pull what a batch needs, and push gradients for it."""
    answers: SimpleQueue[Any] = SimpleQueue()

    def ask(request: Pull | Push, payload: Any) -> Any:
        link.send(request, payload, lambda reply, answer: answers.put((reply, answer)), answers.put)
        answer = answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer[1]

    work = bench.begin(batch)
    key = BatchKey(0, 0, n)
    wanted = bench.copy.wanted(work, 0)
    bench.copy.take(work, 0, wanted, ask(Pull(1, 1, key, 0, n), wanted))
    bench.copy.fill(work)
    work.row_gradients = {name: work.rows(name, values.shape[1]) for name, values in work.values.items()}
    ask(Push(1, 1, key, 0, n, 1), bench.copy.settle(key, [work], 0))
    bench.free(work)


def measured(
    bench: Workbench, link: HostLink, given: list[Batch], count: int, host_s: Callable[[], float], cold: bool
) -> Cost:
    """Exchange so many batches, and say what one took."""
    turns: Iterator[int] = iter(range(_WARM + count))
    for n in turns:
        sleep(_COLD_S if cold else 0)
        exchange(bench, link, given[n % len(given)], n)
        if n == _WARM - 1:
            before = process_time(), host_s(), perf_counter()
    after = process_time(), host_s(), perf_counter()
    return Cost(*(1e3 * (last - first) / count for first, last in zip(before, after, strict=True)))


def call(way: str, size: int, count: int, cold: bool) -> Cost:
    """Measure one way from this process."""
    given = job(size)
    bench, data = Workbench(given), batches(size, 32)
    if way == "object":
        return measured(bench, DirectLink(host(given)), data, count, lambda: 0.0, cold)
    words = [sys.executable, "-m", "benchmarks.exchange", "--serve", "--batch", str(size)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = Address(**eval(server.stdout.readline()))  # what our own process printed
        link = link_to_host(address, apart=True)
        cost = measured(bench, link, data, count, lambda: cpu_of(server.pid), cold)
        link.close()
        server.kill()
    return cost


def serve(size: int) -> None:
    """Be the host until whoever started this closes the pipe."""
    listener = Listener(host(job(size)))
    print(vars(listener.address), flush=True)
    sys.stdin.read()


@contextmanager
def multiplying(processes: int) -> Iterator[None]:
    """Be a context in which so many processes multiply matrices."""
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, "-c", _MULTIPLY], env=alone) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def compare(rounds: int, size: int, count: int, cold: bool) -> None:
    """Print what a batch takes, by way."""
    found: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, environment in WAYS.items():
            words = [sys.executable, "-m", "benchmarks.exchange", "--way", way]
            words += ["--batch", str(size), "--batches", str(count), *(["--cold"] if cold else [])]
            told = subprocess.run(
                words, env=os.environ | WORKER | environment, stdout=subprocess.PIPE, text=True, check=True
            )
            found[way].append(Cost(*map(float, told.stdout.split())))
    print(f"milliseconds of a batch of {size:,}, medians of {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for way, costs in found.items():
        caller, there, clock = (statistics.median(each) for each in zip(*costs, strict=True))
        cpu = f"CPU {caller + there:5.2f} (worker {caller:5.2f}, host {there:5.2f})"
        print(f"  {way:14} {cpu}, {clock:5.2f} by the clock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--way", choices=WAYS, help="Measure this one in this process, and print figures only.")
    parser.add_argument("--serve", action="store_true", help="Be the shard host.")
    parser.add_argument("--cold", action="store_true", help="Batches come now and then, beside multiplications.")
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.batch)
    elif chosen.way:
        print(*call(chosen.way, chosen.batch, chosen.batches, chosen.cold))
    else:
        with multiplying((os.cpu_count() or 1) if chosen.cold else 0):
            compare(chosen.rounds, chosen.batch, chosen.batches, chosen.cold)


if __name__ == "__main__":
    main()
