"""From what workers said about themselves to Hardware: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heterps.device import FoundDevices
from heterps.errors import ClusterError
from heterps.hardware import Device, Hardware, Host, Link, Pool
from heterps.runtime.batch.devices import ChosenDevice, DeviceWish, StagePool, choose_device
from heterps.runtime.cluster.commands import join_hint
from heterps.runtime.cluster.pools import FoundPool, FoundWorker
from heterps.runtime.cluster.resources import GPU, SERVER

__all__ = ["MeasuredTransfer", "WorkerFacts", "describe"]


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker knows about its process and machine, and what it can compute on."""

    machine: str
    cores: int
    blas: tuple[tuple[str, int], ...]
    found: FoundDevices = field(default_factory=FoundDevices)


@dataclass(frozen=True)
class MeasuredTransfer:
    """What passed between one worker of each of two pools."""

    source: str
    target: str
    bytes_per_s: float
    latency_s: float


def describe(
    pools: Sequence[FoundPool],
    facts: Mapping[str, WorkerFacts],
    machines: Mapping[str, Hardware],
    transfers: Sequence[MeasuredTransfer],
    wish: DeviceWish | None = None,
) -> Hardware:
    """Put the findings together.

    Parameters
    ----------
    pools
        The pools found.
    facts
        What each worker said, by address.
    machines
        What was measured on each machine, by its name.
    transfers
        What was measured between pools.
    wish
        What a run will ask of its pools; by default workers tagged GPU are to use one.
    """
    if not pools:
        raise ClusterError(f"no worker declares a pool; start workers that do: {join_hint('HPS_IO')}")
    hosts, seat = _hosts(pools, facts, machines)
    counts = {pool.name: len(pool.workers) for pool in pools}
    links = tuple(_link(transfer, counts) for transfer in transfers)
    wish = DeviceWish(emulate=True).on((pool.name, pool.name == GPU) for pool in pools) if wish is None else wish
    described = tuple(_pool(pool, pools, facts, machines, transfers, seat, wish) for pool in pools)
    return Hardware(described, hosts, links)


def _link(transfer: MeasuredTransfer, counts: Mapping[str, int]) -> Link:
    # One pair was measured; as many pairs work at once as the smaller pool has workers.
    pairs = min(counts[transfer.source], counts[transfer.target])
    return Link(transfer.source, transfer.target, transfer.bytes_per_s * pairs, transfer.latency_s)


def _hosts(
    pools: Sequence[FoundPool], facts: Mapping[str, WorkerFacts], machines: Mapping[str, Hardware]
) -> tuple[tuple[Host, ...], dict[str, str]]:
    """Return the hosts, equal machines being one with a count, and the host of each pool that sits on one only."""
    tenants: dict[str, Counter[str]] = {}
    for pool in pools:
        for worker in pool.workers:
            tenants.setdefault(facts[worker.address].machine, Counter())[pool.name] += 1
    alike: dict[object, list[str]] = {}
    for machine, counter in sorted(tenants.items()):
        alike.setdefault((machines[machine].hosts[0].cores, tuple(sorted(counter.items()))), []).append(machine)
    hosts = tuple(_host([machines[name].hosts[0] for name in names], names[0]) for names in alike.values())
    seats = {pool.name: {n[0] for n in alike.values() if pool.name in tenants[n[0]]} for pool in pools}
    return hosts, {pool: next(iter(where)) for pool, where in seats.items() if len(where) == 1}


def _host(alike: Sequence[Host], name: str) -> Host:
    slowest = min(alike, key=lambda host: host.memory_bytes_per_s)
    memory = min(host.memory_bytes for host in alike)
    return replace(slowest, name=name, memory_bytes=memory, count=len(alike))


def _pool(
    pool: FoundPool,
    pools: Sequence[FoundPool],
    facts: Mapping[str, WorkerFacts],
    machines: Mapping[str, Hardware],
    transfers: Sequence[MeasuredTransfer],
    seat: Mapping[str, str],
    wish: DeviceWish,
) -> Pool:
    said = next((each for each in wish.pools if each.name == pool.name and each.kind == "gpu"), StagePool(kind="cpu"))
    chosen = {worker.address: choose_device(wish.wanted, facts[worker.address].found, said) for worker in pool.workers}
    units = [_device(w, facts[w.address], machines, said, chosen[w.address]) for w in pool.workers]
    # Workers of a pool count as identical: the slowest speaks for all.
    device = replace(min(units, key=lambda unit: unit.rate()), memory_bytes=min(unit.memory_bytes for unit in units))
    if speeds := [t.bytes_per_s for t in transfers if pool.name in (t.source, t.target)]:
        device = replace(device, network_bytes_per_s=max(speeds))
    serves = pool.name == SERVER or (pool.name != GPU and all(p.name != SERVER for p in pools))
    emulated = any(each.emulated for each in chosen.values())
    return Pool(pool.name, device, len(pool.workers), seat.get(pool.name), serves, emulated)


def _device(
    worker: FoundWorker, facts: WorkerFacts, machines: Mapping[str, Hardware], said: StagePool, chosen: ChosenDevice
) -> Device:
    """Return the figures of what the worker's programs would compute on."""
    measured, emulated = machines[facts.machine], chosen.emulated
    if chosen.library == "gpu":
        known = next(pool.device for pool in measured.pools if pool.device.name == chosen.name)
        return replace(known, cores=1)
    core, host = measured.pools[0].device, measured.hosts[0]
    cores = max(worker.nthreads, *(threads for _, threads in facts.blas), 1) if facts.blas else worker.nthreads
    return replace(
        core,
        name="emulated GPU" if emulated else f"{cores} cores of {facts.machine}",
        kind="gpu" if said.kind == "gpu" else "cpu",
        flops={dtype: rate * cores for dtype, rate in core.flops.items()},
        memory_bytes=worker.memory_bytes or core.memory_bytes * cores,
        memory_bytes_per_s=min(core.memory_bytes_per_s * cores, host.memory_bytes_per_s),
        cores=cores,
        source=f"NumPy on CPU cores, measured; {chosen.why}" if emulated else "measured",
    )
