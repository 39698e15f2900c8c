"""Which pool of the cluster does what for a Plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from heterps.planner.plan import Plan
from heterps.runtime.cluster.resources import COMPUTE, GPU, IO, SERVER

__all__ = ["Roles", "roles_for", "workers_for"]


@dataclass(frozen=True)
class Roles:
    """Pools by what they do: shard hosts, and each stage in order (the first reads the data)."""

    server: str = SERVER
    stages: tuple[str, ...] = (IO,)

    @property
    def io(self) -> str:
        """The pool that reads."""
        return self.stages[0]

    def __contains__(self, pool: str) -> bool:
        return pool == self.server or pool in self.stages

    def of(self, pools: Collection[str]) -> set[str]:
        """Return the protocol's roles of a worker in these pools."""
        roles = {"server"} if self.server in pools else set()
        roles |= {"io"} if self.io in pools else set()
        return roles | ({"compute"} if len(self.stages) > 1 and self.stages[1] in pools else set())


def roles_for(plan: Plan, pools: Collection[str] | None = None) -> Roles:
    """Return who does what: pools of the plan's own names where the cluster has them, else pools named by role.

    Parameters
    ----------
    plan
        What to run.
    pools
        Pools of the cluster; None for one that will be made to measure.
    """
    there = set(pools or ())

    def choose(name: str, *usual: str) -> str:
        return next((pool for pool in (name, *usual) if pool in there), usual[0])

    stages = [choose(stage.pool, *((IO,) if i == 0 else _usual(plan, i))) for i, stage in enumerate(plan.stages)]
    return Roles(choose(plan.shard_pool, SERVER, stages[0]), tuple(stages))


def _usual(plan: Plan, stage: int) -> tuple[str, ...]:
    """A later stage on the pool of the first runs beside the data; others are for compute workers."""
    return (IO,) if plan.stages[stage].pool == plan.stages[0].pool else (COMPUTE, GPU)


def workers_for(plan: Plan) -> Mapping[str, int]:
    """Return the workers of an in-process cluster that is just what the plan needs."""
    roles = roles_for(plan)
    workers = {roles.server: plan.servers}
    for stage, pool in zip(plan.stages, roles.stages, strict=True):
        workers[pool] = max(workers.get(pool, 0), stage.units)
    return workers
