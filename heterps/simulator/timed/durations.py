"""What a batch takes at each place that it passes, as plain values: the clock of a simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Crew", "Durations", "HostTimes", "PoolOfWorkers", "StageTimes", "WorkerTimes"]


@dataclass(frozen=True)
class PoolOfWorkers:
    """Where the workers of a pool run.

    Parameters
    ----------
    machine
        Name of a machine that they share with others (see :class:`Durations`); "": each has one of its own.
    send_bytes_per_s, receive_bytes_per_s
        What one of them can send, and receive at the same time.
    cores
        Of the machine that one of them takes while it works; one that has a machine of its own takes all of it.
    """

    send_bytes_per_s: float
    receive_bytes_per_s: float
    machine: str = ""
    cores: float = 1.0


@dataclass(frozen=True)
class Crew:
    """Equal workers of one pool; work takes each ``pace`` times as long as the figures say."""

    pool: str
    workers: int
    pace: float = 1.0


@dataclass(frozen=True)
class WorkerTimes:
    """Busy seconds of a worker that reads, per batch.

    Parameters
    ----------
    read_s
        In the thread that reads ahead; all else is in the thread of the attempt.
    begin_s
        Unique ids, routing, and what the engine takes.
    take_s, push_s
        Laying out the rows that came, and the gradients that go, of all hosts together.
    call_s
        Each answer of a host.
    learn_s
        Where it trains on rows of its own: looking them up and changing them.
    settle_s
        Where ranges of batches are settled beside pushes: laying one out, and taking what others changed.
    """

    read_s: float
    begin_s: float
    take_s: float
    push_s: float
    call_s: float
    learn_s: float = 0.0
    settle_s: float = 0.0

    def busy_s(self, hosts: int) -> float:
        """Of a batch that calls so many hosts: for rows, with their gradients, and for what they answer to these."""
        return self.read_s + self.begin_s + self.take_s + self.push_s + 3 * hosts * self.call_s


@dataclass(frozen=True)
class StageTimes:
    """One stage, per batch and worker.

    Parameters
    ----------
    crews
        The workers that run it.
    forward_s, backward_s
        Its kernels; the last stage does both at once.
    enter_s
        Taking a batch from the stage before and laying the answer out.
    forward_bytes, backward_bytes
        What comes from the stage before and goes back to it.
    bus_s
        Copies between the memory of the machine and of a device, beside the kernels of other batches.
    dense_bytes
        Parameters that come from the hosts; as many bytes of gradients go back, by way of the worker that reads.
    dense_call_s, dense_every
        What a host takes to send them, per batch; they come once for so many batches.
    """

    crews: tuple[Crew, ...]
    forward_s: float
    backward_s: float
    enter_s: float = 0.0
    forward_bytes: float = 0.0
    backward_bytes: float = 0.0
    bus_s: float = 0.0
    dense_bytes: float = 0.0
    dense_call_s: float = 0.0
    dense_every: int = 1

    @property
    def busy_s(self) -> float:
        """Of one worker for a batch."""
        return self.enter_s + self.forward_s + self.backward_s

    @property
    def workers(self) -> int:
        """How many run it."""
        return sum(crew.workers for crew in self.crews)


@dataclass(frozen=True)
class HostTimes:
    """Shard hosts: busy seconds of all of them together, per batch, and bytes to and from all of them.

    Parameters
    ----------
    pool, count, replicas
        Where they are, how many, copies of each.
    serve_s, apply_s
        Rows out; gradients in, the rules, dense parameters.
    call_s
        Of one host for each request.
    pull_bytes, push_bytes
        Answers to pulls; pushes, which also go to backups.
    settle_s, settle_bytes
        Where workers train on rows of their own: the changes of a range of batches in, and as many of the others out.
    load_s, write_s
        Of one host: reading its part of a cut, or making fresh tables; writing it.
    """

    pool: str
    count: int
    replicas: int
    serve_s: float
    apply_s: float
    call_s: float
    pull_bytes: float
    push_bytes: float
    settle_s: float = 0.0
    settle_bytes: float = 0.0
    load_s: float = 0.0
    write_s: float = 0.0


@dataclass(frozen=True)
class Durations:
    """Everything that decides how long a run takes.

    Parameters
    ----------
    pools, machines, links
        Pools by name; cores of machines that pools share; bytes per second between two pools, in each direction.
    worker, stages, hosts
        See there. The first stage is that of the workers that read.
    group_bytes, group_s
        Where dense parameters are all-reduced: their gradient, and what a member takes to step.
    message_s, start_s, task_s
        Of any message; until a worker is there; until a task that was submitted begins.
    rows
        Of a batch.
    """

    pools: Mapping[str, PoolOfWorkers]
    worker: WorkerTimes
    stages: tuple[StageTimes, ...]
    hosts: HostTimes
    rows: int
    machines: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[frozenset[str], float] = field(default_factory=dict)
    group_bytes: float = 0.0
    group_s: float = 0.0
    message_s: float = 1e-4
    start_s: float = 3.0
    task_s: float = 5e-3
