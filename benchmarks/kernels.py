"""How far a program's step is from its bare matrix products, and where the rest goes.

Run: ``python -m benchmarks.kernels [--model wide_deep] [--batch 1024 4096] [--threads 2] [--parts]``. Times are CPU
time of one thread, so a busy machine distorts ratios little; rounds of program and GEMMs alternate.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from heterps.graph import Graph
from heterps.kernels import Program, Rows
from heterps.stages.lowering import lower

SLOTS, IDS = 26, 100_000


def zipf_rows(rng: np.random.Generator, n: int, width: int) -> Rows:
    """Pulled rows for ids that follow Zipf's law (exponent 1.1), as after de-duplication in order of first use."""
    weights = np.arange(1, IDS + 1) ** -1.1
    ids = rng.choice(IDS, size=(n, SLOTS), p=weights / weights.sum()) + np.arange(SLOTS) * IDS
    unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(unique), np.int32)
    rank[np.argsort(first)] = np.arange(len(unique), dtype=np.int32)
    values = rng.standard_normal((len(unique), width)).astype(np.float32) * np.float32(0.1)
    return Rows(values, (rank[inverse].reshape(n, SLOTS),))


def make_feeds(graph: Graph, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for op in graph:
        if op.kind == "pull":
            feeds[op.name] = zipf_rows(rng, n, op.attrs["width"])
        elif op.kind == "input" and op.type.dtype == "float32":
            feeds[op.name] = rng.random((n, *op.type.shape), dtype=np.float32)
    feeds["y"] = (feeds["y"] < 0.25).astype(np.float32)
    return feeds


def gemms(graph: Graph, n: int) -> list[Callable[[], Any]]:
    """The bare products of every weight matrix: forward, weight gradient, and input gradient where one is wanted."""
    products: list[Callable[[], Any]] = []
    rng = np.random.default_rng(1)
    for op in graph:
        source = op.inputs[0] if op.inputs else ""
        for param in graph.params(op):
            if len(param.shape) != 2:
                continue
            k, m = param.shape
            x, w, dy = (rng.random(s, dtype=np.float32) for s in ((n, k), (k, m), (n, m)))
            y, dw, dx = np.empty_like(dy), np.empty_like(w), np.empty_like(x)
            products.append(lambda x=x, w=w, y=y: np.dot(x, w, out=y))
            products.append(lambda x=x, dy=dy, dw=dw: np.dot(x.T, dy, out=dw))
            if graph[source].kind != "input":
                products.append(lambda dy=dy, w=w, dx=dx: np.dot(dy, w.T, out=dx))
    return products


def cpu(run: Callable[[], Any]) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start


def runners(graph: Graph, n: int) -> tuple[Callable[[], None], Callable[[], None], Program]:
    """One step of a program, its bare products, and the program; each run once already."""
    program = Program(graph, batch_size=n)
    feeds = make_feeds(graph, n)
    flat = np.random.default_rng(2).standard_normal(program.layout.size).astype(np.float32) * np.float32(0.05)
    products = gemms(graph, n)

    def step() -> None:
        program.forward(feeds, flat, seed=1)
        program.backward()

    def bare() -> None:
        for product in products:
            product()

    step()
    bare()
    return step, bare, program


def compare(graph: Graph, n: int, seconds: float) -> tuple[float, float, dict[str, float]]:
    step, bare, program = runners(graph, n)
    ours, theirs, end = [], [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        ours.append(cpu(step))
        theirs.append(cpu(bare))
    return statistics.median(ours), statistics.median(theirs), parts(program, step)


def together(graph: Graph, n: int, threads: int, seconds: float) -> float:
    """Wall-clock ratio of bare products to steps when several threads, each with a program of its own, run at once."""
    lanes = [runners(graph, n) for _ in range(threads)]
    ratios, end = [], time.perf_counter() + seconds
    with ThreadPoolExecutor(threads) as pool:
        while time.perf_counter() < end:
            times = []
            for which in (0, 1):
                start = time.perf_counter()
                list(pool.map(lambda lane, w=which: [lane[w]() for _ in range(4)], lanes))
                times.append(time.perf_counter() - start)
            ratios.append(times[1] / times[0])
    return statistics.median(ratios)


def parts(program: Program, step: Callable[[], None], rounds: int = 10) -> dict[str, float]:
    """CPU milliseconds per step of the program, both directions, measured call by call."""
    spent: dict[str, float] = {}
    with program.timed(spent, time.thread_time):
        for _ in range(rounds):
            step()
    return {name: 1e3 * t / rounds for name, t in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=["wide_deep"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1024, 4096])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1, help="also run this many programs at once")
    parser.add_argument("--parts", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    with threadpool_limits(1, "blas"):
        for name in options.model:
            graph = lower(getattr(importlib.import_module(f"graphs.{name}"), name)()).graph
            for n in options.batch:
                ours, bare, where = compare(graph, n, options.seconds)
                print(f"{name} batch {n}: step {1e3 * ours:.2f} ms, GEMMs {1e3 * bare:.2f} ms, ratio {bare / ours:.3f}")
                if options.threads > 1:
                    ratio = together(graph, n, options.threads, options.seconds)
                    print(f"    {options.threads} threads at once: ratio {ratio:.3f} (wall clock)")
                if options.parts:
                    for part, ms in sorted(where.items(), key=lambda p: -p[1]):
                        print(f"    {part:32s} {ms:8.3f} ms")


if __name__ == "__main__":
    main()
