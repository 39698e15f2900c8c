"""How many workers one driver can serve: the production state machine in a world of events, and Dask's scheduler.

``python -m benchmarks.scale`` plays runs with 100, 1,000 and 10,000 io workers against :class:`RunState` and the
:class:`Driver` around it. Everything else is a clock: a worker tells what an engine's worker would tell (how far it is,
that all is read, that a Split is done), one in fifty takes five times as long and is found to be slow, one in a
thousand is lost and comes back, and there is a cut every ``--cut`` seconds. Printed by number of workers: processor
time of an event and the events a second that it allows, the share of a core that the events of Splits of ``--split-s``
seconds take, the longest event while the run goes on and the longest of a cut (which has to tell everybody), the most
memory, and what an engine's driver does now and then besides: a look for stragglers, a look at all workers, and an
order to run a Split on its way to the wire. The exponents say how costs grow with the number of workers: 0 is not at
all.

``--dask 100`` measures Dask with so many workers instead (:mod:`benchmarks.dask_workers`).
"""

from __future__ import annotations

import argparse
import gc
import heapq
import itertools
import math
import os
import pickle
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.dask_workers import measure_dask
from heterps.data import Split
from heterps.protocol import RunSpec
from heterps.protocol.run.state import RunState
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.modes import Async, Mode, Sync
from heterps.runtime.cluster.pools import group_by_pool, workers_from
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.driver import Driver
from heterps.runtime.run.stragglers import Stragglers

SLOW, LOST, STRAGGLING = 50, 1000, 5.0  # one in so many is slow, is lost; so many times slower
BATCHES = 300  # of a Split


class Clock:
    """A carrier whose workers only take time: what they will tell is kept by when they tell it."""

    def __init__(self, args: argparse.Namespace, workers: int) -> None:
        self.args, self.workers = args, workers
        self.now = 0.0
        self.told: list[tuple[float, int, ev.Event]] = []
        self.alive: dict[int, tuple[float, str]] = {}  # attempts: when they began, and where
        self.left: dict[int, tuple[float, str]] = {}  # paused attempts: seconds that they still need, and where
        self._orders: list[Any] = []  # instructions that were given and not carried out
        self._order = itertools.count()
        self._rng = np.random.default_rng(1)
        self.report_s = max(0.5, workers / args.reports) if args.reports else math.inf

    def tell(self, after_s: float, event: ev.Event) -> None:
        """Have an event told later."""
        heapq.heappush(self.told, (self.now + after_s, next(self._order), event))

    def takes_s(self, worker: str) -> float:
        """Seconds of a Split on a worker."""
        slow = int(worker.partition("-")[2]) % SLOW == SLOW - 1
        return float(self.args.split_s * self._rng.uniform(0.8, 1.2) * (STRAGGLING if slow else 1))

    def current(self, event: ev.Event) -> bool:
        """Say whether an event is still to be told: what an attempt that is gone or paused would tell is not."""
        attempt = getattr(event, "attempt", None)
        return attempt is None or attempt in self.alive or isinstance(event, ev.SplitPaused)

    # --- what workers do

    def carry_out(self) -> None:
        """Let workers do what they were told, outside of what is measured."""
        orders, self._orders = self._orders, []
        for order in orders:
            self._do(order)

    def going_on(self, event: ev.BatchesDone) -> None:
        """Have an attempt tell again how far it is."""
        if event.attempt in self.alive and self.now + self.report_s < self.alive[event.attempt][0]:
            self.tell(self.report_s, ev.BatchesDone(event.attempt, event.upto + 1))

    def _go(self, attempt: int, worker: str, needs_s: float) -> None:
        self.alive[attempt] = self.now + needs_s, worker
        if self.report_s < needs_s:
            self.tell(self.report_s, ev.BatchesDone(attempt, 1))
        if not self.args.sync:
            self.tell(0.98 * needs_s, ev.SplitEnding(attempt))
        self.tell(needs_s, ev.SplitDone(attempt, BATCHES))

    def _do(self, order: Any) -> None:
        match order:
            case do.RunSplit(attempt=attempt, worker=worker, start=start, until=until, serial=serial):
                if until is not None:
                    self.tell(0.1, ev.SplitPaused(attempt, start, serial))
                self._go(attempt, worker, self.takes_s(worker))
            case do.Cancel(attempt):
                self.alive.pop(attempt, None)
                self.left.pop(attempt, None)
            case do.Pause(attempt, serial=serial) if attempt in self.alive:
                until, worker = self.alive.pop(attempt)
                self.left[attempt] = max(0.1, until - self.now), worker
                self.tell(0.05, ev.SplitPaused(attempt, 1, serial))
            case do.Resume(attempt) if attempt in self.left:
                needs_s, worker = self.left.pop(attempt)
                self._go(attempt, worker, needs_s)
            case do.CreateHost(copy=copy, term=term, cut=int()):
                self.tell(1.0, ev.HostReady(copy, term))
            case do.MarkCut(copy=copy, cut=cut):
                self.tell(0.01, ev.CutMarked(copy, cut))
                self.tell(2.0, ev.CutWritten(copy, cut))
            case do.Rewind(copy=copy, term=term) | do.Promote(copy=copy, term=term) | do.Own(copy=copy, term=term):
                self.tell(1.0, ev.HostReady(copy, term))
            case do.Attach(copy=copy, backup=backup):
                self.tell(1.0, ev.BackupReady(copy, backup))

    # --- instructions

    def run_split(self, run: do.RunSplit, split: Split | None) -> None:
        """Begin a Split."""
        self._orders.append(run)

    def to_attempt(self, attempt: int, instruction: do.Instruction) -> None:
        """Stop, go on, or end."""
        self._orders.append(instruction)

    def create_host(self, create: do.CreateHost) -> None:
        """Make a host."""
        self._orders.append(create)

    def to_host(self, instruction: Any) -> None:
        """Hand on."""
        self._orders.append(instruction)

    def to_member(self, instruction: Any) -> None:
        """There is no group."""

    def create_stage(self, worker: str) -> None:
        """There is none."""

    def let_go(self, worker: str) -> None:
        """Nobody waits."""

    def publish_cut(self, cut: Any, copies: Sequence[int]) -> None:
        """The manifest is there at once."""
        self.tell(0.01, ev.CutPublished(cut.number))

    def drop_cut(self, cut: int) -> None:
        """Nothing is on disk."""

    def cut_folder(self, cut: int) -> str:
        """Nothing is on disk."""
        return ""

    def worker_name(self, worker: str) -> str:
        """Workers have the names they came with."""
        return worker


class Costs:
    """Processor time of events."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.longest: dict[str, float] = {}

    def note(self, kind: str, seconds: float) -> None:
        """Take note of one."""
        self.count += 1
        self.seconds += seconds
        if seconds > self.longest.get(kind, 0.0):
            self.longest[kind] = seconds


def play(workers: int, args: argparse.Namespace) -> dict[str, Any]:
    """Play a run until so many Splits of a worker are done, or all are; return what its events took."""
    hosts = max(1, min(args.servers, workers // 10))
    mode: Mode = Sync() if args.sync else Async()
    spec = RunSpec(
        mode, hosts=hosts, shards=max(1024, hosts), replicas=args.replicas, lanes=workers if args.sync else 1
    )
    clock, inbox = Clock(args, workers), Arrivals()
    splits = range(args.splits)
    driver = Driver(spec, clock, inbox, lambda pass_: splits)  # type: ignore[arg-type, return-value]
    names = [f"io-{n}" for n in range(workers)]
    servers = tuple(f"server-{n}" for n in range(hosts))
    clock.tell(0.0, ev.ServersJoined(servers, servers))
    for n, name in enumerate(names):
        clock.tell(0.5 + 5.0 * n / workers, ev.WorkerJoined(name, "io"))
    for name in names[LOST - 1 :: LOST]:
        clock.tell(1.5 * args.split_s, ev.WorkerLost(name))
        clock.tell(1.7 * args.split_s, ev.WorkerJoined(name, "io", stay=1))
    for n, name in enumerate(names[SLOW - 1 :: SLOW]):
        clock.tell(2.0 * args.split_s, ev.WorkerPaced(name, True, n + 1))
    start, steady, stop = Costs(), Costs(), Costs()
    begin, end = 6.0 + args.split_s, 6.0 + args.split_s * (1 + args.rounds)
    if args.cut:
        clock.tell(begin + args.cut, ev.CutAsked())
    done = 0
    gc.collect()
    gc.freeze()
    while clock.told and not driver.finished:
        at, _, event = heapq.heappop(clock.told)
        if at > end and not args.all:
            break
        clock.now = at
        if not clock.current(event):
            continue
        if isinstance(event, ev.SplitDone):
            clock.alive.pop(event.attempt, None)
            done += 1
        before = time.process_time()
        driver.handle(event)
        while driver.step():
            pass
        took = time.process_time() - before
        clock.carry_out()
        if isinstance(event, ev.BatchesDone):
            clock.going_on(event)
        everybody = driver.state.phase not in ("running",) or isinstance(event, ev.CutAsked | ev.CutMarked)
        (start if at < begin else stop if everybody else steady).note(type(event).__name__, took)
        if isinstance(event, ev.CutPublished) and args.cut:
            clock.tell(args.cut, ev.CutAsked())
    seconds = max(clock.now - begin, 1e-9)
    longest = max(steady.longest.items(), key=lambda kv: kv[1], default=("", 0.0))
    told = max(stop.longest.items(), key=lambda kv: kv[1], default=("", 0.0))
    return {
        "workers": workers,
        "servers": hosts,
        "splits done": done,
        "events": start.count + steady.count + stop.count,
        "us an event": 1e6 * (steady.seconds + stop.seconds) / max(1, steady.count + stop.count),
        "events/s of a core": (steady.count + stop.count) / max(1e-9, steady.seconds + stop.seconds),
        "events/s there": (steady.count + stop.count) / seconds,
        "share of a core": (steady.seconds + stop.seconds) / seconds,
        "longest ms": 1e3 * longest[1],
        "of": longest[0],
        "longest of a cut ms": 1e3 * told[1],
        "of ": told[0],
        "start s": start.seconds,
        "longest at start ms": 1e3 * max(start.longest.values(), default=0.0),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **beside(driver.state),
    }


def beside(run: RunState) -> dict[str, float]:
    """What the driver of an engine does beside events, now and then: milliseconds of each."""
    now = [0.0]
    stragglers = Stragglers(10.0, 3, Arrivals(), lambda: None, str, lambda: now[0])
    workers = {
        f"tcp://10.0.0.1:{n}": {"name": name, "host": "10.0.0.1", "nthreads": 2, "memory_limit": 0, "resources": {}}
        for n, name in enumerate(run.roster.workers)
    }
    layout = run.layout()
    order = do.RunSplit(1, 1, "", 0, 0, 0, 0, 0, None, 0, (0, 0), layout)

    def look() -> None:
        now[0] += 0.6
        stragglers.look(run)

    return {
        "stragglers ms": milliseconds(look),
        "attendance ms": milliseconds(lambda: group_by_pool(workers_from({"workers": workers}))),
        "an order's ms": milliseconds(lambda: pickle.dumps(order)),
        "its KB": len(pickle.dumps(order)) / 1000,
    }


def milliseconds(act: Callable[[], object]) -> float:
    """Processor time of an act, after the first time."""
    act()
    before = time.process_time()
    for _ in range(3):
        act()
    return 1e3 * (time.process_time() - before) / 3


def exponent(rows: Sequence[dict[str, Any]], name: str) -> float:
    """How a figure grows with the number of workers, from the smallest run to the largest."""
    first, last = rows[0], rows[-1]
    return math.log(last[name] / max(first[name], 1e-12)) / math.log(last["workers"] / first["workers"])


def protocol(args: argparse.Namespace) -> None:
    """Print the table."""
    rows = []
    for workers in map(int, args.workers.split(",")):
        rows.append(play(workers, args))
        told = (
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in rows[-1].items()
        )
        print("  ".join(told), flush=True)
    if len(rows) > 1:
        named = ("us an event", "longest ms", "longest of a cut ms", "start s", "stragglers ms", "attendance ms")
        grow = {name: exponent(rows, name) for name in named}
        print("grows with workers to the power of:", "  ".join(f"{n} {e:.2f}" for n, e in grow.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="100,1000,10000", help="Numbers of io workers.")
    parser.add_argument("--servers", type=int, default=1000, help="Servers at most; one for ten workers.")
    parser.add_argument("--splits", type=int, default=1_000_000)
    parser.add_argument("--split-s", type=float, default=30.0, help="Seconds of a Split.")
    parser.add_argument("--rounds", type=int, default=4, help="Splits of each worker that are played.")
    parser.add_argument("--all", action="store_true", help="Play all Splits.")
    parser.add_argument("--cut", type=float, default=60.0, help="Seconds between cuts; 0 for none.")
    parser.add_argument("--reports", type=float, default=400.0, help="Words a second on progress, of all; 0 for none.")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--sync", action="store_true", help="Lanes in step, one for each worker.")
    parser.add_argument("--dask", type=int, help="Measure Dask with so many workers in one process instead.")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--calm", action="store_true", help="Let Dask look at itself as seldom as with our preload.")
    args = parser.parse_args()
    if args.dask:
        measure_dask(args.dask, args.tasks, args.calm)
    else:
        print(f"load {os.getloadavg()[0]:.1f}")
        protocol(args)


if __name__ == "__main__":
    main()
