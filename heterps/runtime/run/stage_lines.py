"""The stage actors of a run on a cluster: made from the last stage to the first, as each calls the one behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile

from distributed import Client

from heterps.errors import ClusterError
from heterps.protocol.words import events as ev
from heterps.runtime.batch.job import Job
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.attendance import Attendance
from heterps.runtime.run.line import ActorLine
from heterps.runtime.run.remote import Remote
from heterps.runtime.run.roles import Roles
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.delivery import member_key
from heterps.runtime.workers.stage_actor import StageActor

__all__ = ["StageLines"]


class StageLines:
    """The stage actors of one run.

    Parameters
    ----------
    job, client, run, roles
        What runs where, and the name of the run.
    attendance
        Which workers are there.
    arrivals
        Brings answers to the run's thread.
    hosts
        Returns where the shard hosts are; None until all are known.
    lost
        ``lost(worker, error)`` for one that does not answer.
    """

    def __init__(
        self,
        job: Job,
        client: Client,
        run: str,
        roles: Roles,
        attendance: Attendance,
        arrivals: Arrivals,
        hosts: Callable[[], list[Address] | None],
        lost: Callable[[str, ClusterError], None],
    ) -> None:
        self.addresses: dict[int | str, Address] = {}
        """Where batches go: first compute stages, by worker; and the members of an all-reduce group on them."""
        self._job, self._client, self._run, self._roles = job, client, run, roles
        stages = roles.stages
        self._attendance, self._arrivals, self._hosts, self._on_lost = attendance, arrivals, hosts, lost
        self._waiting: list[str] = []  # workers whose first stages are wanted and not begun
        self._lines: dict[tuple[int, str], ActorLine] = {}  # by first stage that runs there, and worker
        self._behind: dict[tuple[int, str], Address] = {}  # of stages that other stages call
        beside = takewhile(lambda i: roles.pools_of(i) == roles.pools_of(1), range(1, len(stages)))
        self._first = list(beside)  # those that run where the first compute stage runs, one behind the other
        self._later = [i for i in range(1, len(stages)) if i not in self._first]

    @property
    def lines(self) -> list[tuple[str, ActorLine]]:
        """Pool and line of every actor."""
        pools = self._attendance.pools
        return [(self._roles.pool_of(i, pools.get(worker, ())), line) for (i, worker), line in self._lines.items()]

    @property
    def being_made(self) -> bool:
        """Whether some worker may still get its actors by waiting."""
        return bool(self._waiting) or any(
            not line.made.done() and worker not in self._attendance.paused for (_, worker), line in self._lines.items()
        )

    def want(self, worker: str) -> None:
        """Make the first stages on a worker, as soon as what they call is there."""
        self._waiting.append(worker)
        self.advance()

    def moved(self) -> None:
        """A shard host can be reached at another place."""
        hosts = self._hosts()
        if hosts is not None:
            for (_, worker), line in self._lines.items():
                self._arrivals.when(line.ask("move", hosts), _nothing, partial(self._on_lost, worker))
        self.advance()

    def left(self, worker: str) -> None:
        """A worker is gone."""
        self._waiting = [waiting for waiting in self._waiting if waiting != worker]
        for key in [key for key in self._lines if key[1] == worker]:
            self._lines.pop(key).abandon()
            self._behind.pop(key, None)

    def let_go(self, worker: str) -> list[tuple[str, ActorLine]]:
        """A worker is about to leave: nothing is asked of it any more. Return pool and line of what it had."""
        keys = [key for key in self._lines if key[1] == worker]
        pools = self._attendance.pools.get(worker, ())
        gone = [(self._roles.pool_of(key[0], pools), self._lines.pop(key)) for key in keys]
        self.left(worker)
        return gone

    def is_behind(self, worker: str) -> bool:
        """Whether other stages send batches on to this worker: they know no other way."""
        return any(index in self._later and there == worker for index, there in self._lines)

    def advance(self) -> None:
        """Make what can be made now."""
        hosts = self._hosts()
        if hosts is None or not self._waiting:
            return
        behind: dict[int, list[Address]] = {}
        for index in reversed(self._later):
            if not self._is_there(index, hosts, behind):
                return
        waiting, self._waiting = self._waiting, []
        for worker in waiting:
            made = self._make(1, worker, self._first, hosts, behind)
            self._arrivals.when(made.ask("addresses"), partial(self._ready, worker), partial(self._on_lost, worker))

    def _is_there(self, index: int, hosts: list[Address], behind: dict[int, list[Address]]) -> bool:
        """Say whether every worker of a later stage answers, and where; makes its actor on those that have none."""
        able, attendance = set(self._roles.pools_of(index)), self._attendance
        workers = [w for w, pools in attendance.pools.items() if able & set(pools) and w not in attendance.paused]
        for worker in workers:
            if (index, worker) not in self._lines:
                made = self._make(index, worker, [index], hosts, behind)
                found = partial(self._found, index, worker)
                self._arrivals.when(made.ask("addresses"), found, partial(self._on_lost, worker))
        behind[index] = [self._behind[index, w] for w in workers if (index, w) in self._behind]
        return bool(workers) and len(behind[index]) == len(workers)

    def _make(
        self,
        key: int,
        worker: str,
        stages: list[int],
        hosts: list[Address],
        behind: Mapping[int, list[Address]],
    ) -> ActorLine:
        args = (self._run, self._job, stages, hosts, {index: list(there) for index, there in behind.items()})
        line = ActorLine(worker, lambda u: Remote(self._client, worker, StageActor, *args, unwanted=u))
        self._lines[key, worker] = line
        return line

    def _found(self, index: int, worker: str, addresses: Mapping[int, Address]) -> None:
        self._behind[index, worker] = addresses[index]
        self.advance()

    def _ready(self, worker: str, addresses: Mapping[int, Address]) -> None:
        self.addresses[worker] = addresses[1]
        line = self.line(worker)
        if self._job.stage_group and line is not None:
            told, lost = partial(self._joins_group, worker), partial(self._on_lost, worker)
            self._arrivals.when(line.ask("member_address"), told, lost)
        else:
            self._arrivals.tell(ev.StageReady(worker))

    def _joins_group(self, worker: str, address: Address) -> None:
        self.addresses[member_key(worker)] = address
        self._arrivals.tell(ev.StageReady(worker))

    def line(self, worker: str) -> ActorLine | None:
        """Return the line to the first stages of a worker, if it has them."""
        return self._lines.get((1, worker))

    def steps(self) -> dict[str, int]:
        """Return how many batches each compute worker has computed, by name."""
        made = {worker: line for (index, worker), line in self._lines.items() if index == 1 and line.made.done()}
        asked = {worker: line.ask("steps") for worker, line in made.items()}
        return {
            self._attendance.name(worker): sum(answer.result().values())
            for worker, answer in asked.items()
            if answer.exception() is None
        }


def _nothing(answer: object) -> None:
    """Nothing follows from the answer."""
