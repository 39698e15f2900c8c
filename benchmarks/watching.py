"""What it costs to be watched, in one run.

``python -m benchmarks.watching`` trains Wide & Deep on a cluster in this process, in turns with and without a notice
board (``heterps.watch``); while there is one, somebody asks for the page's state once a second, as a browser does. It
prints the processor's seconds a sample with it against those without, pair by pair (wanted: at most 1.01), and the same
for the time that passed, which means something on a quiet machine only. Before that, what one report costs the
processor: made into plain values, sent, noted and asked for by a page. There is about one a second.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter, process_time

import dask
import numpy as np
from distributed import Client

import heterps as hps
from heterps.models.wide_deep import wide_deep
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.notices import put_up_board, read_board, tell_board
from heterps.runtime.report.board import news_of

SLOTS, DENSE, BATCH = 26, 13, 4096


def data(rows: int) -> hps.Dataset:
    """Ids by a power law, labels by chance: nothing is to be learned here."""
    rng = np.random.default_rng(0)
    ids = (rng.random((rows, SLOTS)) ** 4 * 100_000).astype(np.uint64) + np.arange(SLOTS, dtype=np.uint64) * 1_000_000
    x, y = rng.normal(size=(rows, DENSE)).astype(np.float32), rng.integers(0, 2, rows).astype(np.float32)
    return hps.arrays({"ids": ids, "x": x, "y": y}, split_cost=BATCH * 4)


@contextmanager
def looked_at(page: str) -> Iterator[None]:
    """Ask for the state once a second."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(1.0):
            urllib.request.urlopen(f"{page}/state.json", timeout=10).read()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def of_a_report(client: Client, page: str, last: hps.Progress, reports: int = 300) -> float:
    """Return the processor's milliseconds for a report, with one question of a page."""
    about = {"name": "cost", "driver": client.id, "about": [], "picture": ""}
    client.sync(tell_board, client, "begin", "cost", about)
    cpu = process_time()
    for _ in range(reports):
        client.sync(tell_board, client, "news", "cost", {"news": news_of(last)})
        urllib.request.urlopen(f"{page}/state.json", timeout=10).read()
    return 1e3 * (process_time() - cpu) / reports


def spent(session: hps.Session, dataset: hps.Dataset, epochs: int) -> tuple[float, float]:
    """Return microseconds a sample: of the processor, and of the clock."""
    cpu, wall = process_time(), perf_counter()
    *_, last = session.train(dataset, epochs)
    return 1e6 * (process_time() - cpu) / last.samples, 1e6 * (perf_counter() - wall) / last.samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--rows", type=int, default=BATCH * 40)
    parser.add_argument("--epochs", type=int, default=1)
    given = parser.parse_args()
    plan = hps.Plan.fused(wide_deep(slots=SLOTS, dense=DENSE), batch_size=BATCH)
    dataset = data(given.rows)
    cpu: list[float] = []
    wall: list[float] = []
    with local_cluster({"server": 1, "io": 1}) as client, hps.launch(plan, client, name="watched") as session:
        put_up_board(client)
        page = read_board(client)["page"]
        *_, last = session.train(dataset, 1)  # rows are made, loops compiled
        print(
            f"a report with a question of a page: {of_a_report(client, page, last):.2f} ms of the processor", flush=True
        )
        for pair in range(given.pairs):
            found = {}
            for watched in (pair % 2 == 0, pair % 2 == 1):
                with dask.config.set({"heterps.watch": watched}), looked_at(page) if watched else nullcontext():
                    found[watched] = spent(session, dataset, given.epochs)
            cpu.append(found[True][0] / found[False][0])
            wall.append(found[True][1] / found[False][1])
            print(f"pair {pair}: processor {cpu[-1]:.4f}, clock {wall[-1]:.4f}", flush=True)
    if not given.pairs:
        return
    middle = f"processor {statistics.median(cpu):.4f}, clock {statistics.median(wall):.4f}"
    print(f"with a notice board against without: {middle} (median of {given.pairs} pairs)")


if __name__ == "__main__":
    main()
