"""What a soak is to do, and its start: a cluster on this machine, where possible with a link for each worker."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import dask

from heterps.errors import ClusterError
from heterps.runtime.cluster.launcher import Launch, launch_cluster
from heterps.soak.network import HUB, Links, can_part

__all__ = ["Soak", "start_soak"]

_OPEN = {"heterps.network.trusted": True, "heterps.network.unix-sockets": False}


@dataclass(frozen=True)
class Soak:
    """What is trained, and what happens to it.

    Parameters
    ----------
    minutes
        How long, at least one round.
    mode, replicas, servers, io
        Of the run and its cluster.
    faults, each
        Words of :func:`~heterps.soak.victims.faults_of`; whether each is played once, in order.
    bits
        Whether tables are compared with those of a run in one process.
    network
        Folder of links that can be cut; empty: there are none.
    seed
        Of what happens when.
    log, logs
        The file that gets results, and the folder of one log for each process.
    """

    minutes: float = 10.0
    mode: str = "async"
    replicas: int = 2
    servers: int = 3
    io: int = 3
    faults: str = ""
    each: bool = False
    bits: bool = False
    network: str = ""
    seed: int = 0
    log: str = "soak.jsonl"
    logs: str = "logs"

    def words(self) -> tuple[str, ...]:
        """Return the words after ``python`` that run it."""
        return ("-m", "heterps.soak", json.dumps(asdict(self)))


def start_soak(soak: Soak, network: bool | None, tell: Callable[[str], None]) -> int:
    """Run a soak to its end and return its exit code.

    Parameters
    ----------
    soak
        What to do.
    network
        Whether each worker is to have its own link; None: where this process may make networks.
    tell
        Takes lines for the user.
    """
    with ExitStack() as stack:
        links = _links(stack, network, tell)
        soak = replace(soak, network=str(links.folder) if links else "")
        launch = Launch(
            {"server": soak.servers, "io": soak.io}, soak.words(), Path(soak.logs), max_restarts=1_000_000,
            host=HUB if links else "127.0.0.1",
        )  # fmt: skip
        return launch_cluster(launch, tell=lambda line: None, place=links.place if links else None)


def _links(stack: ExitStack, wanted: bool | None, tell: Callable[[str], None]) -> Links | None:
    if wanted is False or (wanted is None and not can_part()):
        return None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="heterps-links-"))
    try:
        links = stack.enter_context(Links(Path(folder)))
    except ClusterError as error:
        if wanted:
            raise
        tell(f"workers have no link of their own, so none is cut: {error}")
        return None
    stack.enter_context(dask.config.set(_OPEN))
    for key, value in _OPEN.items():  # the processes read their own config
        os.environ["DASK_" + key.upper().replace(".", "__").replace("-", "_")] = str(value)
    return links
