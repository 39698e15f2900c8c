"""The commands that start what a plan says: a cluster on one machine, or on many, and the training on it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from heterps.errors import ClusterError
from heterps.planner.plan import Plan
from heterps.runtime.cluster.gpu_share import is_gpu_pool
from heterps.runtime.cluster.many_hosts import many_hosts
from heterps.runtime.cluster.plan_hosts import plan_machines
from heterps.runtime.cluster.resources import COMPUTE, GPU, IO, SERVER, resource_of

__all__ = ["plan_commands", "workers_of"]

_OPTIONS = {SERVER: "--servers", IO: "--io", COMPUTE: "--compute", GPU: "--gpus"}


def workers_of(plan: Plan) -> dict[str, int]:
    """Workers by the pool that they declare: ``server`` and ``io``, then pools of later stages."""
    names, workers = _names(plan), {SERVER: plan.servers}
    for pool, units in plan.units.items():
        workers[names[pool]] = workers.get(names[pool], 0) + units
    return workers


def _names(plan: Plan) -> dict[str, str]:
    """What workers of each pool that runs a stage declare.

    A pool that runs the first stage is ``io``, also for later stages on it (a further one that has a depth of its own
    keeps its name); one of GPUs keeps its name if that is a GPU's, else it is ``gpu``; another one is ``compute`` if
    there is no second.
    """
    names = dict.fromkeys(plan.stages[0].workers, IO)
    for share in plan.stages[0].also if plan.depths else ():
        resource_of(share.pool)  # refuses names that workers cannot declare
        names[share.pool] = share.pool
    for pool in (pool for stage in plan.stages[1:] for pool in stage.workers):
        if pool not in names:
            names[pool] = _name(plan, pool, set(names.values()))
    return names


def _roles(plan: Plan) -> dict[str, tuple[str, ...]]:
    """What workers of each pool declare, those that carry shard hosts among them."""
    roles = {pool: (name,) for pool, name in _names(plan).items()}
    return roles | {plan.shard_pool: (SERVER, *roles.get(plan.shard_pool, ()))}


def _name(plan: Plan, pool: str, taken: set[str]) -> str:
    if is_gpu_pool(pool):
        return pool
    usual = GPU if plan.pool(pool).kind == "gpu" else COMPUTE
    if usual not in taken:
        return usual
    if usual == GPU:
        raise ClusterError(
            f"the plan has two pools of GPUs, and pool {pool!r} is not named after one: call it so, such as v100"
        )
    resource_of(pool)  # refuses names that workers cannot declare
    return pool


def plan_commands(
    plan: Plan,
    train: Sequence[str],
    *,
    hosts: str | None = None,
    certs: str | None = None,
    port: int = 8786,
) -> str:
    """Return the commands, as a text for a shell.

    Parameters
    ----------
    plan
        What to run.
    train
        Words of ``heterps train`` that run it: the plan's file, ``--data`` and so on.
    hosts
        Machines as ``heterps launch --hosts`` takes them, or by the name of what is rented, ``10.0.0.6=g6-xlarge``;
        None: one machine.
    certs
        Folder of certificates for many machines; None: no TLS, which only loopback accepts.
    port
        Of the scheduler, on many machines.
    """
    workers = workers_of(plan)
    script = ("-m", "heterps", "train", *train)
    if hosts is None:
        return _on_one_machine(workers, script)
    roles = _roles(plan)
    machines = plan_machines(plan, hosts, roles)
    return many_hosts(machines, workers, script, port=port, certs=certs, threads=_threads(plan, roles))


def _threads(plan: Plan, roles: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Cores of a worker by what it declares; where pools of unequal size declare the same, those of the smallest.

    A worker with a GPU computes there: it has the cores of the largest CPU worker, as far as its machine has them.
    """
    cores = {pool.name: pool.device.cores for pool in plan.pools}
    most = max((pool.device.cores for pool in plan.pools if pool.kind == "cpu"), default=1)
    threads: dict[str, int] = {}
    for pool, names in roles.items():
        for role in names:
            threads[role] = min(threads.get(role, most), cores[pool])
    return threads


def _on_one_machine(workers: Mapping[str, int], script: Sequence[str]) -> str:
    words = ["heterps", "launch"]
    for pool, count in workers.items():
        words += [_OPTIONS[pool], str(count)] if pool in _OPTIONS else ["--pool", f"{pool}={count}"]
    return shlex.join([*words, *script])
