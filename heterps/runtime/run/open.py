"""From a Plan to an engine on a cluster: find it or make it, check it, say who does what."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distributed import Client

from heterps.device import FoundDevices, found_devices
from heterps.errors import ClusterError, HardwareError, PlanError
from heterps.planner.plan import Plan, Stage
from heterps.planner.validate import validate
from heterps.runtime.batch.devices import AUTO, DeviceWish
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.own_parts import OwnParts
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.cluster.connect import connected, is_at_hand
from heterps.runtime.cluster.exposure import warn_of_open
from heterps.runtime.cluster.pools import FoundPool, Need, pools_of, wait_for_pools
from heterps.runtime.cluster.probe import discover
from heterps.runtime.cluster.resources import GPU
from heterps.runtime.run.dask_engine import ClusterEngine
from heterps.runtime.run.roles import Roles, depths_on, roles_for, units_of, workers_for

__all__ = ["check_plan", "open_cluster"]

_LOG = logging.getLogger("heterps")


def open_cluster(job: Job, plan: Plan, client: Client | None = None, **options: Any) -> ClusterEngine:
    """Return an engine on the given client's cluster, or on the nearest one; closing it ends what was started here.

    Raises
    ------
    ClusterError
        Where the cluster has not what the plan asks for; before anything is submitted.
    """
    with contextlib.ExitStack() as stack:
        is_given = is_at_hand(client)
        found = stack.enter_context(connected(client, workers_for(plan)))
        roles = roles_for(plan, {pool.name for pool in pools_of(found)})
        pools = wait_for_pools(found, needs_of_roles(plan, roles))
        if is_given:
            warn_of_open(found, {worker.address: worker.name for pool in pools for worker in pool.workers})
        depths = depths_on(plan, roles) if plan.depths_in(job.mode) else {}
        job = replace(job, devices=on_roles(job.devices, plan, roles), depths=depths)
        check_devices(found, job, pools, roles)
        if is_given and plan.forecast is not None:  # else there is nothing that figures were planned with
            check_plan(found, plan, roles, job.devices)
        return ClusterEngine(job, found, roles, closing=stack.pop_all(), **options)


def on_roles(wish: DeviceWish, plan: Plan, roles: Roles) -> DeviceWish:
    """Return the wish for the pools that were chosen: those planned as GPUs and workers tagged GPU are to use one."""
    for stage in plan.stages:
        if len({plan.pool(pool).kind for pool in stage.workers}) > 1:
            named = ", ".join(stage.workers)
            raise PlanError(f"stage {stage.name!r} is on pools {named}, of which only some have GPUs: give it one kind")
    stages = zip(plan.stages, roles.stages, strict=True)
    return wish.on((name, plan.pool(stage.pool).kind == "gpu" or name == GPU) for stage, name in stages)


def check_devices(client: Client, job: Job, pools: Sequence[FoundPool], roles: Roles) -> None:
    """Refuse workers that cannot compute on what is wanted of them, all at once and before anything is submitted."""
    wish = job.devices
    if wish.wanted in (AUTO, "cpu") and all(stage.kind != "gpu" for stage in wish.pools):
        return  # every worker has a CPU
    able = [(i, pool) for i in range(len(wish.pools)) for pool in roles.pools_of(i)]
    workers = {pool.name: pool.workers for pool in pools if pool.name in {name for _, name in able}}
    names = {w.address: w.name for those in workers.values() for w in those}
    found = ask_workers(client, _found_with, names, job.own_parts)
    errors: dict[str, None] = {}
    reading = sum(len(workers.get(pool, ())) for i, pool in able if i == 0)
    for stage, worker in ((i, worker) for i, pool in able for worker in workers.get(pool, ())):
        try:
            job.device_on(stage, found[worker.address], reading)
        except HardwareError as error:
            errors[f"- worker {worker.name}: {error}"] = None
    if errors:
        raise ClusterError("the cluster is not what the plan asks for:\n" + "\n".join(errors))


def _found_with(parts: OwnParts) -> FoundDevices:
    """Look what a worker can compute on, once it knows what the run brings along."""
    parts.install()
    return found_devices()


def needs_of_roles(plan: Plan, roles: Roles) -> tuple[Need, ...]:
    """Return what the plan asks of the pools that were chosen for it."""
    units = units_of(plan, roles)
    workers = {**units, roles.server: max(plan.servers, units.get(roles.server, 0))}
    memory = {roles.server: plan.memory_bytes.get(plan.shard_pool, 0.0)}
    for i, stage in enumerate(plan.stages):
        for planned, pool in zip(stage.workers, roles.pools_of(i), strict=True):
            memory[pool] = max(memory.get(pool, 0.0), plan.memory_bytes.get(planned, 0.0))
    return tuple(Need(pool, count, memory[pool]) for pool, count in sorted(workers.items()))


def check_plan(client: Client, plan: Plan, roles: Roles, wish: DeviceWish) -> None:
    """Compare the cluster with what the plan was made for: refuse what cannot run, log what makes it slower."""
    every = [(pool, wish.pool(i).kind == "gpu") for i in range(len(roles.stages)) for pool in roles.pools_of(i)]
    for warning in validate(on_pools(plan, roles), discover(client, links=False, wish=wish.on(every))):
        _LOG.warning("the forecast may not hold: %s", warning)


def on_pools(plan: Plan, roles: Roles) -> Plan:
    """Return the plan with the names of the pools that were chosen for it."""
    chosen = [(plan.shard_pool, roles.server)]
    for i, stage in enumerate(plan.stages):
        chosen += zip(stage.workers, roles.pools_of(i), strict=True)
    pools = {name: replace(plan.pool(planned), name=name) for planned, name in chosen}
    memory = {name: plan.memory_bytes.get(planned, 0.0) for planned, name in chosen}
    depths = depths_on(plan, roles) if plan.depths else {}
    chosen_pools = [roles.pools_of(i) for i in range(len(plan.stages))]
    stages = tuple(_renamed(stage, named) for stage, named in zip(plan.stages, chosen_pools, strict=True))
    return replace(
        plan,
        stages=stages,
        pools=tuple(pools.values()),
        shard_pool=roles.server,
        memory_bytes=memory,
        forecast=None,
        depth=max(depths.values(), default=plan.depth),
        depths=depths,
    )


def _renamed(stage: Stage, pools: Sequence[str]) -> Stage:
    """Return a stage on pools of other names."""
    also = tuple(replace(share, pool=name) for share, name in zip(stage.also, pools[1:], strict=True))
    return replace(stage, pool=pools[0], also=also)
