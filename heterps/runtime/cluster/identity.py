"""What a scheduler says about itself and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.runtime.answers import answer
from heterps.runtime.config import settings

__all__ = ["identity_of"]


def identity_of(client: Client) -> Mapping[str, Any]:
    """Ask the scheduler, as it is now.

    Not ``Client.scheduler_info``: that keeps the answer where the client's own heartbeat, every two seconds, puts one
    without any worker; whoever reads it then believes that all workers are gone.

    Raises
    ------
    ClusterError
        When the scheduler is gone or does not answer.
    """
    if client.status != "running":
        raise ClusterError(f"the scheduler is gone (the client is {client.status})")

    def lost(reason: str) -> ClusterError:
        return ClusterError(f"the scheduler is gone ({reason})")

    async def ask() -> Mapping[str, Any]:
        identity: Mapping[str, Any] = await client.scheduler.identity(n_workers=-1)
        return identity

    return answer(client, ask, lost, settings().call_s)
