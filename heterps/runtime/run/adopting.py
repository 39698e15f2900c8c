"""Tables that outlived their driver: another one finds them on the workers and goes on with them.

Dask lets go of a dead driver's actors, but a worker keeps what they hold for ``heterps.orphans``. So nothing has to
keep their keys alive: a new actor is made on the worker, around the object that the old one has.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.protocol.host.standing import HostStanding
from heterps.protocol.run.found import FoundRun, found
from heterps.protocol.words.cut import Cut
from heterps.runtime.batch.job import Job
from heterps.runtime.cluster.ask import ask_workers
from heterps.runtime.config import settings
from heterps.runtime.run.line import ActorLine, close_all
from heterps.runtime.run.places import Places
from heterps.runtime.run.remote import LEASES, Remote, free_left
from heterps.runtime.workers.host_actor import HostActor

__all__ = ["Adoption", "LeftHost", "adopt"]

_NOTICED_S, _LOOK_S = 5.0, 0.2  # the scheduler may need a moment to notice that a driver has died
_log = logging.getLogger("heterps")


@dataclass(frozen=True)
class LeftHost:
    """A shard host that is on a worker: of which run, and whether its driver is gone."""

    token: str
    worker: str
    host: int
    run: str
    about: Mapping[str, Any]
    orphaned: bool


@dataclass(frozen=True)
class Adoption:
    """The shard hosts of a run whose driver died, in order, and what that driver said of the run."""

    lines: Sequence[ActorLine]
    about: Mapping[str, Any]
    standings: Sequence[HostStanding]

    def where(self, cut: Cut, *, ordered: bool) -> FoundRun | None:
        """Return where the run is; None if the hosts cannot tell."""
        return found(cut, self.standings, ordered=ordered)

    def into(self, places: Places) -> None:
        """From now on these answer for their hosts."""
        for host, line in enumerate(self.lines):
            places.set(host, line.worker, line)

    def drop(self) -> None:
        """Free them after all."""
        close_all(self.lines)


# --- on workers


def left_hosts(folder: str, dask_worker: Any = None) -> list[LeftHost]:
    """Return the shard hosts on a worker of runs that make their cuts in a folder."""
    return [
        LeftHost(seat.token, dask_worker.address, seat.occupant.host, seat.occupant.run, seat.occupant.about, orphaned)
        for seat, orphaned in LEASES.of(dask_worker)
        if isinstance(seat.occupant, HostActor)
        and seat.occupant.about.get("folder") == folder
        and seat.occupant.is_serving
    ]


def adopted_host(token: str, job: Job, who: str) -> HostActor:
    """Take a shard host whose driver is gone."""
    found = next((seat for seat, orphaned in LEASES.all() if seat.token == token and orphaned), None)
    if found is None:
        raise ClusterError("the shard host was freed, or another driver has taken it")
    host = found.give(who)
    assert isinstance(host, HostActor)
    host.job = job
    return host


# --- at the driver


def adopt(client: Client, job: Job, wanted: Mapping[str, Any], workers: Mapping[str, str]) -> Adoption | None:
    """Take over the shard hosts of a run whose driver died, if all of them are there; else free those that are.

    Parameters
    ----------
    client, job
        What is to go on, and where.
    wanted
        What the run says of itself (:meth:`~heterps.runtime.cuts.checkpoints.Keeper.about`): the other one must have
        said the same.
    workers
        Names of all workers, by address.
    """
    try:
        there = _orphans(client, wanted["folder"], workers)
        fit = {each.host: each for each in there if _is_same(each.about, wanted)}
        runs = {each.run for each in there}
        whole = len({each.run for each in fit.values()}) == 1 and sorted(fit) == list(range(job.hosts))
        adoption = _taken(client, job, [fit[host] for host in sorted(fit)]) if whole else None
        for run in runs:
            ask_workers(client, free_left, workers, run)
    except ClusterError as error:
        _log.warning("tables of a driver that died cannot be taken over: %s", error)
        return None
    if adoption is None and there:
        _log.warning("a driver that died left %d of %d shard hosts of this run: they are freed", len(fit), job.hosts)
    return adoption


def _orphans(client: Client, folder: str, workers: Mapping[str, str]) -> list[LeftHost]:
    """Return hosts whose driver is gone, of each the newest; one whose driver lives is left alone."""
    until = monotonic() + _NOTICED_S
    while True:
        found = [each for told in ask_workers(client, left_hosts, workers, folder).values() for each in told]
        if all(each.orphaned for each in found) or monotonic() > until:
            break
        threading.Event().wait(_LOOK_S)
    newest = max((each.about["life"] for each in found), default=0)
    if any(not each.orphaned for each in found):
        _log.warning("%s is being trained by another driver, whose tables stay its own", folder)
    return [each for each in found if each.orphaned and each.about["life"] == newest]


def _is_same(about: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Say whether it is the same run, but for how often it was started."""
    of_a_life = dict.fromkeys(("life", "fresh", "first", "carried"), 0)
    return {**about, **of_a_life} == {**wanted, **of_a_life}


def _taken(client: Client, job: Job, hosts: Sequence[LeftHost]) -> Adoption | None:
    who = f"process {os.getpid()} on {socket.gethostname()}"
    lines = [_line(client, job, each, who) for each in hosts]
    wait([line.made for line in lines], settings().make_s)
    asked = [line.ask("stand_still") for line in lines]
    wait(asked, settings().call_s)
    with suppress(ClusterError, TimeoutError):
        return Adoption(lines, dict(hosts[0].about), [answer.result(timeout=0) for answer in asked])
    close_all(lines)
    return None


def _line(client: Client, job: Job, left: LeftHost, who: str) -> ActorLine:
    args = (left.token, job, who)
    return ActorLine(left.worker, lambda unwanted: Remote(client, left.worker, adopted_host, *args, unwanted=unwanted))
