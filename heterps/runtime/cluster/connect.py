"""Which cluster a run uses: the given client's, the default client's, the configured one, or one in this process."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping

import dask
from distributed import Client, default_client

from heterps.errors import ClusterError
from heterps.runtime.answers import reason_of
from heterps.runtime.cluster.commands import scheduler_hint
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.config import settings
from heterps.runtime.wire.addresses import parse_address

__all__ = ["client_of", "connected", "existing_client", "is_at_hand"]


@contextlib.contextmanager
def connected(client: Client | None = None, workers: Mapping[str, int] | None = None) -> Iterator[Client]:
    """Yield a client; end at the end of the block only what was started here.

    Parameters
    ----------
    client
        Used when given. Otherwise the default client is, as xgboost.dask does; else the scheduler that Dask's config
        names (``heterps launch`` sets DASK_SCHEDULER_ADDRESS); else an in-process cluster.
    workers
        Workers by pool of an in-process cluster.
    """
    found = client or existing_client()
    if found is not None:
        yield _synchronous(found)
    elif address := dask.config.get("scheduler-address", None):
        with client_of(address) as made:
            yield made
    else:
        with local_cluster(workers) as made:
            yield made


def is_at_hand(client: Client | None = None) -> bool:
    """Whether :func:`connected` finds a cluster, and makes none."""
    return bool(client or existing_client() or dask.config.get("scheduler-address", None))


def existing_client() -> Client | None:
    """Return the default client of this process, None when there is none."""
    try:
        return default_client()
    except ValueError:
        return None


def client_of(address: str | None = None, within_s: float | None = None) -> Client:
    """Connect to a scheduler, by default the one that Dask's config names, within the configured time or a shorter."""
    address = address or dask.config.get("scheduler-address", None)
    if not address:
        raise ClusterError("which cluster? Give the scheduler's address or set DASK_SCHEDULER_ADDRESS")
    where = parse_address(address)
    if not where.is_local and not (where.host and where.port):
        raise ClusterError(f"address {address!r}: a scheduler's has a host and a port, as in tcp://10.0.0.5:8786")
    seconds = min(settings().connect_s, within_s or math.inf)
    try:
        return Client(address, timeout=seconds, set_as_default=False)
    except (Exception, asyncio.CancelledError) as error:
        raise ClusterError(
            f"no scheduler answered at {address} within {seconds:g} s. Start one there ({scheduler_hint()}) or correct "
            "the address (Dask's config has it as scheduler-address, the environment as DASK_SCHEDULER_ADDRESS). "
            f"Dask says: {reason_of(error)}"
        ) from error


def _synchronous(client: Client) -> Client:
    if client.asynchronous:
        raise ClusterError("the client is asynchronous (asynchronous=True); give one made by plain Client(...)")
    if client.status != "running":
        raise ClusterError(f"the client is {client.status}; connect again and give the new one")
    return client
