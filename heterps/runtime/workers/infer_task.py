"""Inference on a worker: one Dask task per Split, reading rows straight from the shard hosts."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import get_worker

from heterps.data import Dataset, Split
from heterps.metrics import Metric
from heterps.runtime.batch.inference import Inferred, infer_split
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import Pulled, Wanted
from heterps.runtime.report.lined_up import filled, placed
from heterps.runtime.wire.links import link_to_host
from heterps.runtime.wire.service import Address
from heterps.runtime.wire.worker_sockets import client_tls, worker_place
from heterps.runtime.workers.delivery import run_here

__all__ = ["Shape", "infer_task", "keep_task"]

_AHEAD = 4  # batches whose rows are read at once
Shape = Callable[[npt.NDArray[Any], Any], Any]


def infer_task(
    run: str,
    job: Job,
    dataset: Dataset | None,
    split: Split,
    hosts: Sequence[Address],
    metrics: Sequence[Metric],
    fetch: Mapping[str, str],
    names: Sequence[str] = (),
    *rows: Any,
) -> Inferred:
    """Run forward on one Split, with rows by name that it needs and that workers hold."""
    here = run_here(run)
    data = here.dataset if here is not None else dataset
    assert data is not None
    data = data.given(dict(zip(names, rows, strict=True)))
    worker = get_worker()
    tls = client_tls(worker)
    with ExitStack() as opened:
        ways = [_Way(hosts, tls) for _ in range(_AHEAD)]
        for way in ways:
            opened.callback(way.close)
        return infer_split(job, [way.read for way in ways], data, split, metrics, fetch, worker_place(worker))


class _Way:
    """Links to all shard hosts, for one batch at a time; a connection is opened when it is used first."""

    def __init__(self, hosts: Sequence[Address], tls: ssl.SSLContext | None) -> None:
        self._links = [link_to_host(address, tls) for address in hosts]

    def read(self, host: int, wanted: Wanted) -> Pulled:
        return self._links[host].read(wanted)

    def close(self) -> None:
        for link in self._links:
            link.close()


def keep_task(shape: Shape, source: str, *args: Any) -> Any:
    """Run forward on a Split that is one partition; return what is kept of it, and stays where it was made."""
    inferred, partition = infer_task(*args), args[-1]
    found = [part[source] for part in filled(placed([inferred]))]
    return shape(np.asarray(found[0]) if found else np.zeros(0), partition.index)  # one without rows has no values
