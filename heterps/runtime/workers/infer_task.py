"""Inference on a worker: one Dask task per Split, reading rows straight from the shard hosts."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence

from distributed import get_worker

from heterps.data import Dataset, Split
from heterps.metrics import Metric
from heterps.runtime.batch.inference import Inferred, infer_split
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, Wanted
from heterps.runtime.batch.phases import Phases
from heterps.runtime.wire.links import DirectLink, HostLink, SocketLink
from heterps.runtime.wire.peer import SocketPeer
from heterps.runtime.wire.service import Address, local_service
from heterps.runtime.workers.delivery import client_tls, run_here
from heterps.runtime.workers.shard_host import ShardHost

__all__ = ["infer_task", "link_to"]


def link_to(address: Address, tls: ssl.SSLContext | None = None, phases: Phases | None = None) -> HostLink:
    """Take the nearest way to a shard host."""
    service = local_service(address)
    return DirectLink(service) if isinstance(service, ShardHost) else SocketLink(SocketPeer(address, tls=tls), phases)


def infer_task(
    run: str,
    job: Job,
    dataset: Dataset | None,
    split: Split,
    hosts: Sequence[Address],
    metrics: Sequence[Metric],
    fetch: Mapping[str, str],
) -> Inferred:
    """Run forward on one Split."""
    here = run_here(run)
    data = here.dataset if here is not None else dataset
    assert data is not None
    tls = client_tls(get_worker())
    links = [link_to(address, tls) for address in hosts]

    def read(host: int, wanted: Wanted) -> Pulled:
        return links[host].read(wanted)

    try:
        return infer_split(job, read, data, split, metrics, fetch)
    finally:
        for link in links:
            link.close()
