"""Which pool of the cluster does what for a Plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from heterps.planner.plan import Plan
from heterps.runtime.cluster.resources import COMPUTE, GPU, IO, SERVER

__all__ = ["Roles", "depths_on", "roles_for", "units_of", "workers_for"]


@dataclass(frozen=True)
class Roles:
    """Pools by what they do: shard hosts, and each stage in order (the first reads the data)."""

    server: str = SERVER
    stages: tuple[str, ...] = (IO,)
    also: tuple[tuple[str, ...], ...] = ()
    """Of each stage: further pools that run it, of unequal speed."""

    @property
    def io(self) -> str:
        """The pool that reads."""
        return self.stages[0]

    def __contains__(self, pool: str) -> bool:
        return pool == self.server or any(pool in self.pools_of(i) for i in range(len(self.stages)))

    def pools_of(self, stage: int) -> tuple[str, ...]:
        """Return the pools that run a stage."""
        return (self.stages[stage], *(self.also[stage] if stage < len(self.also) else ()))

    def pool_of(self, stage: int, pools: Collection[str]) -> str:
        """Return the pool as which a worker in these pools runs a stage."""
        return next((pool for pool in self.pools_of(stage) if pool in pools), self.stages[stage])

    def by_name(self) -> dict[str, tuple[str, ...]]:
        """Return pools by what users call their part in a run."""
        compute = {"compute": self.pools_of(1)} if len(self.stages) > 1 else {}
        return {"servers": (self.server,), "io": self.pools_of(0), **compute}

    def of(self, pools: Collection[str]) -> set[str]:
        """Return the protocol's roles of a worker in these pools."""
        roles = {"server"} if self.server in pools else set()
        roles |= {"io"} if set(self.pools_of(0)) & set(pools) else set()
        return roles | ({"compute"} if len(self.stages) > 1 and set(self.pools_of(1)) & set(pools) else set())


def roles_for(plan: Plan, pools: Collection[str] | None = None) -> Roles:
    """Return who does what: pools of the plan's own names where the cluster has them, else pools named by role.

    Where pools that read have depths of their own, a further one keeps its name in a cluster that is made to measure.

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
    also = [tuple(choose(share.pool, *_usual(plan, i)) for share in s.also) for i, s in enumerate(plan.stages)]
    if pools is None and plan.depths:
        also[0] = tuple(share.pool for share in plan.stages[0].also)
    return Roles(choose(plan.shard_pool, SERVER, stages[0]), tuple(stages), tuple(also))


def units_of(plan: Plan, roles: Roles) -> Mapping[str, int]:
    """Return how many workers of each pool run stages: stages of one pool share its workers."""
    workers: dict[str, int] = {}
    for i, stage in enumerate(plan.stages):
        mine: dict[str, int] = {}  # of one stage: further shares may be on the same pool
        for pool, units in zip(roles.pools_of(i), (stage.units, *(s.units for s in stage.also)), strict=True):
            mine[pool] = mine.get(pool, 0) + units
        workers |= {pool: max(units, workers.get(pool, 0)) for pool, units in mine.items()}
    return workers


def _usual(plan: Plan, stage: int) -> tuple[str, ...]:
    """A later stage on the pool of the first runs beside the data; others are for compute workers."""
    return (IO,) if plan.stages[stage].pool == plan.stages[0].pool else (COMPUTE, GPU)


def depths_on(plan: Plan, roles: Roles) -> dict[str, int]:
    """Return batches in flight by pool that reads; the least where two of the plan's pools are one in the cluster."""
    depths: dict[str, int] = {}
    for planned, pool in zip(plan.stages[0].workers, roles.pools_of(0), strict=True):
        depths[pool] = min(plan.depth_on(planned), depths.get(pool, plan.depth))
    return depths


def workers_for(plan: Plan) -> Mapping[str, int]:
    """Return the workers of an in-process cluster that is just what the plan needs."""
    roles = roles_for(plan)
    units = units_of(plan, roles)
    return {**units, roles.server: max(plan.servers, units.get(roles.server, 0))}
