"""Asking a run of another process for fewer workers."""

from __future__ import annotations

from collections.abc import Mapping

from distributed import Client

from heterps.errors import ClusterError
from heterps.runtime.answers import asking
from heterps.runtime.cluster.pools import pools_of
from heterps.runtime.cluster.resources import COMPUTE, IO, SERVER
from heterps.runtime.run.leaving import SCALE_TOPIC

__all__ = ["ask_to_scale", "workers_by_role"]

_POOLS = {"servers": SERVER, "io": IO, "compute": COMPUTE}


def workers_by_role(client: Client) -> dict[str, int]:
    """Return how many workers the usual pools have."""
    found = {pool.name: len(pool.workers) for pool in pools_of(client)}
    return {role: found.get(pool, 0) for role, pool in _POOLS.items()}


def ask_to_scale(client: Client, wanted: Mapping[str, int]) -> None:
    """Leave word for the run that trains on a cluster.

    Raises
    ------
    ClusterError
        Where there are fewer workers than that already.
    """
    there = workers_by_role(client)
    for role, count in wanted.items():
        if count > there[role]:
            raise ClusterError(
                f"there are {there[role]} {role}, fewer than {count}: start more and a run takes them in"
            )
    with asking(lambda reason: ClusterError(f"the scheduler took no word: {reason}")):
        client.log_event(SCALE_TOPIC, dict(wanted))
