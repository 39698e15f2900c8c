"""What a run is to do, and the phases it goes through."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from heterps.errors import PlanError
from heterps.protocol.words.modes import Async, Mode

__all__ = ["TRANSITIONS", "Phase", "RunSpec"]


class Phase(StrEnum):
    """What the run is doing."""

    RESTORING = "restoring"
    """Hosts are being created or rewound."""
    RUNNING = "running"
    DRAINING = "draining"
    """No batch begins; those in flight are being finished."""
    MARKING = "marking"
    """Drained; hosts mark the cut."""
    MOVING = "moving"
    """Drained; rows are being copied to their new host, or the new owners made known."""
    RESTING = "resting"
    """Drained; the engine does something with all hosts, such as a save."""
    FINISHED = "finished"
    ABORTED = "aborted"


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.RESTORING: frozenset({Phase.RESTORING, Phase.RUNNING, Phase.ABORTED}),
    Phase.RUNNING: frozenset({Phase.DRAINING, Phase.RESTORING, Phase.FINISHED, Phase.ABORTED}),
    Phase.DRAINING: frozenset(
        {Phase.MARKING, Phase.MOVING, Phase.RESTING, Phase.RUNNING, Phase.RESTORING, Phase.ABORTED}
    ),
    Phase.MARKING: frozenset({Phase.RUNNING, Phase.RESTORING, Phase.ABORTED}),
    Phase.MOVING: frozenset({Phase.RUNNING, Phase.RESTORING, Phase.ABORTED}),
    Phase.RESTING: frozenset({Phase.RUNNING, Phase.RESTORING, Phase.ABORTED}),
    Phase.FINISHED: frozenset(),
    Phase.ABORTED: frozenset(),
}
"""Which phase may follow which."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run is to do, as far as the protocol is concerned.

    Parameters
    ----------
    mode
        Sync, Async or Geo.
    passes
        How often the data is gone through.
    lanes
        Sync: lanes. Geo: the divisor of deltas.
    hosts, shards, replicas
        Shard hosts, logical shards, copies of each host (1 or 2).
    stage_hosts
        How many of the hosts, the last ones, are on compute workers: stage holders, which own no shards to begin with.
    compute
        There are stage actors on compute workers (else compute is fused with the IO stage).
    retries
        Attempts at one Split in a row that make no progress before the run is given up.
    group
        Dense parameters are all-reduced (Sync only), by those who compute: stage workers if there are any, else the
        io workers.
    final_cut
        Make a cut at the end, before Finish, so that a host lost afterwards costs nothing.
    """

    mode: Mode = field(default_factory=Async)
    passes: int = 1
    lanes: int = 1
    hosts: int = 1
    shards: int = 1024
    replicas: int = 1
    compute: bool = False
    retries: int = 8
    final_cut: bool = False
    stage_hosts: int = 0
    group: bool = False

    def __post_init__(self) -> None:
        for name in ("passes", "lanes", "hosts", "shards", "retries"):
            if getattr(self, name) < 1:
                raise PlanError(f"run: {name}={getattr(self, name)}, but there must be at least one")
        if self.group and not self.mode.ordered:
            raise PlanError(f"all-reduce adds the lanes of a step in order: use Sync, not {self.mode.name!r}")
        if self.replicas not in (1, 2):
            raise PlanError(f"run: replicas={self.replicas}; use 1 (return to the last cut) or 2 (a backup per host)")
        if not 0 <= self.stage_hosts < self.hosts or (self.stage_hosts and not self.compute):
            raise PlanError(
                f"run: {self.stage_hosts} of {self.hosts} hosts on compute workers; at least one has to be elsewhere"
            )
        if self.hosts - self.stage_hosts > self.shards:
            raise PlanError(
                f"run: {self.hosts} hosts for {self.shards} shards leaves hosts with nothing: use fewer hosts"
            )
