"""From a Plan to an engine on a cluster: find it or make it, check it, say who does what."""

from __future__ import annotations

import contextlib
from typing import Any

from distributed import Client

from heterps.planner.plan import Plan
from heterps.runtime.cluster import ClusterEngine
from heterps.runtime.connect import connected
from heterps.runtime.job import Job
from heterps.runtime.pools import Need, pools_of, wait_for_pools
from heterps.runtime.roles import Roles, roles_for, workers_for

__all__ = ["open_cluster"]


def open_cluster(job: Job, plan: Plan, client: Client | None = None, **options: Any) -> ClusterEngine:
    """Return an engine on the given client's cluster, or on the nearest one; closing it ends what was started here.

    Raises
    ------
    ClusterError
        Where the cluster has not what the plan asks for; before anything is submitted.
    """
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(connected(client, workers_for(plan)))
        roles = roles_for(plan, {pool.name for pool in pools_of(found)})
        wait_for_pools(found, needs_of_roles(plan, roles))
        return ClusterEngine(job, found, roles, closing=stack.pop_all(), **options)


def needs_of_roles(plan: Plan, roles: Roles) -> tuple[Need, ...]:
    """Return what the plan asks of the pools that were chosen for it."""
    workers = {roles.server: plan.shard_hosts}
    memory = {roles.server: plan.memory_bytes.get(plan.shard_pool, 0.0)}
    for stage, pool in zip(plan.stages, roles.stages, strict=True):
        workers[pool] = max(workers.get(pool, 0), stage.units)
        memory[pool] = max(memory.get(pool, 0.0), plan.memory_bytes.get(stage.pool, 0.0))
    return tuple(Need(pool, count, memory[pool]) for pool, count in sorted(workers.items()))
