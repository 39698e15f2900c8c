"""The commands that make one cluster of many machines, ready to paste."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from heterps.errors import ClusterError
from heterps.fields import Found, Natural
from heterps.runtime.cluster.certificates import Certificates, open_certificates
from heterps.runtime.cluster.commands import Command, scheduler_command, worker_command
from heterps.runtime.cluster.core_share import Threads
from heterps.runtime.cluster.gpu_share import is_gpu_pool
from heterps.runtime.cluster.resources import COMPUTE, GPU, IO, SERVER
from heterps.runtime.cluster.security import listening_host
from heterps.runtime.wire.addresses import Endpoint

__all__ = ["Machine", "many_hosts", "parse_hosts", "spread"]

_POOLS = (SERVER, IO, COMPUTE, GPU)


@dataclass(frozen=True)
class Machine:
    """An address and the pools its workers may belong to; and, where that is known, what it has room for.

    ``room`` is for each part of it the pools that one of its workers may belong to, and how many workers it has.
    """

    address: str
    pools: tuple[str, ...] = _POOLS
    room: tuple[tuple[frozenset[str], int], ...] = ()

    def takes(self, pool: str, there: Sequence[str]) -> bool:
        """Whether it has room for another worker of a pool beside those of these pools."""
        workers = (*there, pool)
        chosen = itertools.chain.from_iterable(
            itertools.combinations(set(workers), n + 1) for n in range(len(set(workers)))
        )
        return not self.room or all(self._has_room(workers, set(pools)) for pools in chosen)

    def _has_room(self, workers: Sequence[str], pools: set[str]) -> bool:
        """Whether workers of these pools are no more than its parts that take some of them (Hall: so for all pools)."""
        return sum(w in pools for w in workers) <= sum(most for takes, most in self.room if takes & pools)


def parse_hosts(text: str, pools: Collection[str] = _POOLS) -> tuple[Machine, ...]:
    """Read ``a,b=io+server,c=gpu``; a machine of which nothing is said may have workers of all pools.

    >>> parse_hosts("10.0.0.1,10.0.0.2=gpu")[1]
    Machine(address='10.0.0.2', pools=('gpu',))
    """
    machines = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        address, _, allowed = part.partition("=")
        chosen = tuple(allowed.split("+")) if allowed else tuple(pools)
        if unknown := [pool for pool in chosen if pool not in pools]:
            raise ClusterError(f"host {part!r}: there is no pool {unknown[0]!r}; there are {', '.join(pools)}")
        machines.append(Machine(address, chosen))
    if not machines:
        raise ClusterError(f"no host in {text!r}; write addresses with commas between")
    return tuple(machines)


def spread(machines: Sequence[Machine], pools: Mapping[str, int]) -> tuple[tuple[Machine, str, str], ...]:
    """Give every worker a machine, the one with fewest so far among those with room: (machine, pool, name)."""
    placed: list[tuple[Machine, str, str]] = []
    there: list[list[str]] = [[] for _ in machines]
    # GPUs first: where they are is given, the others can go round them.
    for pool in sorted(pools, key=lambda p: sum(p in machine.pools for machine in machines)):
        allowed = [i for i, machine in enumerate(machines) if pool in machine.pools]
        if pools[pool] and not allowed:
            raise ClusterError(
                f"{pools[pool]} workers of pool {pool!r} wanted, but no host allows it: add one (ADDRESS={pool})"
            )
        for n in range(pools[pool]):
            free = [i for i in allowed if machines[i].takes(pool, there[i])]
            if not free:
                raise ClusterError(
                    f"{pools[pool]} workers of pool {pool!r} wanted, hosts that allow it have room for {n}: name more"
                )
            i = min(free, key=lambda i: (len(there[i]), i))
            there[i].append(pool)
            placed.append((machines[i], pool, f"{pool}-{n}"))
    return tuple(placed)


def many_hosts(
    hosts: str | Sequence[Machine],
    pools: Mapping[str, int],
    script: Sequence[str] = (),
    *,
    port: int = 8786,
    certs: str | None = None,
    dashboard: int | None = None,
    threads: int | Mapping[str, int] = 1,
) -> str:
    """Return the commands for each machine, as a text for a shell.

    Parameters
    ----------
    hosts
        Addresses as :func:`parse_hosts` reads them, or what it made of them; the first runs the scheduler.
    pools
        Workers by pool, over all machines.
    script
        Words that come after ``python``.
    port, dashboard
        Ports of the scheduler and, on its loopback, of the dashboard.
    certs
        Folder of the certificates, made where there are none; None: no TLS, and only loopback is accepted.
    threads
        Cores of each worker, or by pool.
    """
    Found(pools, ClusterError, "launch", "pools").read(Mapping[str, Natural])
    machines = [
        replace(machine, address=listening_host(machine.address, tls=certs is not None).host)
        for machine in (parse_hosts(hosts, dict.fromkeys((*_POOLS, *pools))) if isinstance(hosts, str) else hosts)
    ]
    certificates = open_certificates(certs, [m.address for m in machines]) if certs is not None else None
    first = machines[0].address
    scheduler = str(Endpoint("tls" if certificates else "tcp", first, port))
    commands = [(first, scheduler_command(first, port, certificates, dashboard=dashboard))]
    gpus: dict[str, itertools.count[int]] = {}
    for machine, pool, name in spread(machines, pools):
        gpu = str(next(gpus.setdefault(machine.address, itertools.count()))) if is_gpu_pool(pool) else None
        # No launcher watches these, so a nanny restarts them.
        made = worker_command(
            pool,
            name,
            machine.address,
            _threads(pool, threads if isinstance(threads, int) else threads[pool]),
            certificates,
            scheduler=scheduler,
            nanny=True,
            gpu=gpu,
        )
        commands.append((machine.address, made))
    return _text(commands, _client(scheduler, script, certificates), certificates)


def _threads(pool: str, cores: int) -> Threads:
    return Threads(1, cores) if pool == COMPUTE or is_gpu_pool(pool) else Threads(cores, 1)


def _client(scheduler: str, script: Sequence[str], certificates: Certificates | None) -> Command:
    environment = {"DASK_SCHEDULER_ADDRESS": scheduler, **(certificates.environment() if certificates else {})}
    return Command("script", ("python", *(script or ("train.py",))), environment)


def _text(commands: Sequence[tuple[str, Command]], script: Command, certificates: Certificates | None) -> str:
    lines = []
    if certificates:
        folder = shlex.quote(str(certificates.folder))
        lines += [f"# copy {folder} to the same place on every machine, for its owner's eyes only", ""]
    for address in dict.fromkeys(address for address, _ in commands):
        lines += [f"# on {address}", *(f"{made} &" for where, made in commands if where == address), ""]
    return "\n".join([*lines, "# where the script runs", str(script)])
