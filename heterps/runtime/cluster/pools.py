"""The pools found on a cluster, and whether they are what a Plan asks for.

Dask lets a task whose resource nobody has wait for ever; so everything is checked before anything is submitted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.cluster.commands import join_hint
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.resources import ALL, declared_pools, resource_of
from heterps.runtime.cluster.versions import check_versions, report_versions
from heterps.runtime.config import settings

__all__ = ["FoundPool", "FoundWorker", "Need", "check", "pools_of", "shortages", "wait_for_pools"]


@dataclass(frozen=True)
class FoundWorker:
    """A worker as the scheduler knows it; ``memory_bytes`` is its limit, 0 when it has none.

    ``paused`` says that Dask lets it begin nothing, because its memory is nearly full.
    """

    address: str
    name: str
    host: str
    nthreads: int
    memory_bytes: int
    pools: tuple[str, ...]
    paused: bool = False


@dataclass(frozen=True)
class FoundPool:
    """The workers that declare one pool's resource, by name."""

    name: str
    workers: tuple[FoundWorker, ...]

    @property
    def resource(self) -> str:
        """Dask resource of the pool."""
        return resource_of(self.name)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of its workers."""
        return tuple(worker.address for worker in self.workers)


@dataclass(frozen=True)
class Need:
    """What is asked of one pool: a number of workers, and the memory that each must have."""

    pool: str
    workers: int = 1
    memory_bytes: float = 0.0


def pools_of(client: Client) -> tuple[FoundPool, ...]:
    """Return the pools of a cluster by name; a worker that declares several resources is in several."""
    return group_by_pool(workers_from(identity_of(client)))


def workers_from(identity: Mapping[str, Any]) -> tuple[FoundWorker, ...]:
    """Read what a scheduler says about its workers; one that declares no pool serves all, where that is allowed."""
    undeclared = () if settings().strict_pools else ALL
    return tuple(
        FoundWorker(
            address=address,
            name=str(worker["name"]),
            host=str(worker["host"]),
            nthreads=int(worker["nthreads"]),
            memory_bytes=int(worker["memory_limit"] or 0),
            pools=declared_pools(worker["resources"]) or undeclared,
            paused=worker.get("status") == "paused",
        )
        for address, worker in identity["workers"].items()
    )


def group_by_pool(workers: Iterable[FoundWorker]) -> tuple[FoundPool, ...]:
    """Put workers into the pools they declare, in a fixed order."""
    ordered = sorted(workers, key=lambda worker: (worker.name, worker.address))
    names = sorted({pool for worker in ordered for pool in worker.pools})
    return tuple(FoundPool(name, tuple(w for w in ordered if name in w.pools)) for name in names)


def shortages(pools: Sequence[FoundPool], wanted: Sequence[Need]) -> tuple[str, ...]:
    """Return what is missing, one sentence each."""
    found = {pool.name: pool for pool in pools}
    sentences = []
    for want in wanted:
        pool = found.get(want.pool, FoundPool(want.pool, ()))
        if len(pool.workers) < want.workers:
            sentences.append(_too_few(pool, want, pools))
        sentences += [
            _too_small(worker, want) for worker in pool.workers if 0 < worker.memory_bytes < want.memory_bytes
        ]
    return tuple(sentences)


def check(pools: Sequence[FoundPool], wanted: Sequence[Need]) -> None:
    """Raise a ClusterError that names every missing pool, worker and byte."""
    if missing := shortages(pools, wanted):
        raise ClusterError("the cluster is not what the plan asks for:\n" + "\n".join(f"- {m}" for m in missing))


def wait_for_pools(client: Client, wanted: Sequence[Need], timeout_s: float | None = None) -> tuple[FoundPool, ...]:
    """Wait a limited time for the wanted pools, check the versions of their workers, and return them.

    Parameters
    ----------
    client
        Client of the cluster.
    wanted
        What a Plan asks for.
    timeout_s
        How long workers may take to arrive; None: ``heterps.timeouts.workers``.

    Raises
    ------
    ClusterError
        When something is still missing then, a worker does not answer, or has other versions than the client.
    """
    until = time.monotonic() + (settings().workers_s if timeout_s is None else timeout_s)
    while shortages(pools := pools_of(client), wanted) and time.monotonic() < until:
        time.sleep(0.1)
    check(pools, wanted)
    chosen = tuple(pool for pool in pools if pool.name in {want.pool for want in wanted})
    workers = {worker.address: worker.name for pool in chosen for worker in pool.workers}
    check_versions(
        report_versions(), {workers[a]: found for a, found in ask_workers(client, report_versions, workers).items()}
    )
    return chosen


def _too_few(pool: FoundPool, want: Need, pools: Sequence[FoundPool]) -> str:
    there = ", ".join(f"{p.name} ({len(p.workers)})" for p in pools) or "none"
    more = f"Start more with: {join_hint(pool.resource)}"
    other = "" if pool.workers else "; or plan for the pools that are there: heterps.discover(client)"
    return f"pool {want.pool!r} has {len(pool.workers)} of {want.workers} workers; pools found: {there}. {more}{other}"


def _too_small(worker: FoundWorker, want: Need) -> str:
    has, wants = worker.memory_bytes / 2**30, want.memory_bytes / 2**30
    return (
        f"worker {worker.name} of pool {want.pool!r} may use {has:.2f} GiB, {wants:.2f} GiB are needed. "
        "Raise its --memory-limit or spread the tables over more shard hosts"
    )
