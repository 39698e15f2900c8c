"""The shard hosts of a run on a cluster: making them, handing them instructions, gathering the parts of a cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from distributed import Client

from heterps.errors import CheckpointError, ClusterError, RunError
from heterps.protocol.words import events as ev, instructions as do
from heterps.protocol.words.cut import Cut
from heterps.runtime.batch.job import Job
from heterps.runtime.cuts.checkpoints import Keeper
from heterps.runtime.cuts.cut_store import HostPart
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.driver import HostInstruction
from heterps.runtime.run.line import ActorLine
from heterps.runtime.run.remote import Remote
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.host_actor import HostActor

__all__ = ["HostLines", "Places", "host_line"]

Places = dict[tuple[int, str], ActorLine]  # shard hosts by number and worker; they outlive runs


def host_line(client: Client, job: Job, host: int, worker: str) -> ActorLine:
    """Make a shard host on a worker."""
    return ActorLine(worker, lambda unwanted: Remote(client, worker, HostActor, job, host, unwanted=unwanted))


class HostLines:
    """The copies of shard hosts that one run made or took over.

    Parameters
    ----------
    job, client, run
        What runs, where, under which name.
    places
        Shard hosts of the runs before; added to.
    keeper
        Cuts of the run.
    arrivals
        Brings answers to the run's thread.
    lost
        ``lost(worker, error)`` for one that does not answer.
    ready
        Called each time a host can be reached at a new address.
    """

    def __init__(
        self,
        job: Job,
        client: Client,
        run: str,
        places: Places,
        keeper: Keeper,
        arrivals: Arrivals,
        lost: Callable[[str, ClusterError], None],
        ready: Callable[[], None],
    ) -> None:
        self.places = places
        self.addresses: dict[int | str, Address] = {}
        """By copy; those of copies that are gone stay, nobody asks for them."""
        self._job, self._client, self._run, self._keeper = job, client, run, keeper
        self._arrivals, self._on_lost, self._on_ready = arrivals, lost, ready
        self._copies: dict[int, tuple[int, ActorLine]] = {}  # host and line of every copy of this run
        self._begun: set[int] = set()  # hosts that had a copy in this run: another one has lost its rows
        self._by_host: dict[int, Address] = {}  # of the newest copy of each host

    @property
    def all(self) -> list[Address] | None:
        """Where the hosts are, in order; None until every one has been somewhere."""
        if len(self._by_host) < self._job.hosts:
            return None
        return [self._by_host[host] for host in range(self._job.hosts)]

    def rank(self, worker: str) -> tuple[int, str]:
        """Servers join in the order of the hosts they hold, so that the run places every host where its tables are."""
        return min((host for host, there in self.places if there == worker), default=self._job.hosts), worker

    def create(self, create: do.CreateHost) -> None:
        """Make a shard host, or take the one of the run before."""
        place = (create.host, create.worker)
        lost = [known for known in self.places if known[0] == create.host and known != place]
        returns = bool(lost) or create.host in self._begun
        if returns:
            self._check_return(create.host, create.cut)
        elif place in self.places:
            create = self._keeper.as_held(create)
        self._begun.add(create.host)
        for known in lost:
            self.places.pop(known).abandon()
        if place not in self.places:
            self.places[place] = host_line(self._client, self._job, create.host, create.worker)
        line = self.places[place]
        self._copies[create.copy] = create.host, line
        every = self._keeper.cut_every(create.host)
        begun = line.ask("begin", self._run, create.copy, every, patient=True)
        self._arrivals.when(begun, partial(self._placed, create, returns), partial(self._lose, create.copy))

    def _placed(self, create: do.CreateHost, returns: bool, address: Address) -> None:
        """It can be reached: only now it may say that it is ready."""
        self.addresses[create.copy] = self._by_host[create.host] = address
        self._deliver(create.copy, create, create.cut, returns)
        self._on_ready()

    def deliver(self, instruction: HostInstruction) -> None:
        """Hand an instruction to a copy."""
        cut = getattr(instruction, "cut", None)
        returns = isinstance(instruction, do.Rewind)
        if returns:
            self._check_return(self._copies[instruction.copy][0], cut)
        self._deliver(instruction.copy, instruction, cut, returns)

    def _deliver(self, copy: int, instruction: do.Instruction, cut: int | None, returns: bool) -> None:
        told = self._copies[copy][1].ask("deliver", instruction, self._keeper.folder(cut), patient=True)
        unread = partial(self._unread, cut) if returns and cut else None
        self._arrivals.when(told, _nothing, partial(self._lose, copy), unread)  # may load a cut

    def _unread(self, cut: int, error: CheckpointError) -> None:
        """A cut that was whole cannot be loaded any more: the run decides what all hosts return to instead."""
        self._arrivals.tell(self._keeper.lost(cut, error))

    def _check_return(self, host: int, cut: int | None) -> None:
        if not cut and not self._keeper.begins_fresh:
            raise RunError(
                f"shard host {host} was lost with its rows, and there is no cut to return to: {self._keeper.why_no_cut}"
            )
        self._keeper.returns_to(cut)

    def _lose(self, copy: int, error: ClusterError) -> None:
        host, line = self._copies[copy]
        if self.places.get((host, line.worker)) is line:
            del self.places[host, line.worker]
        self._on_lost(line.worker, error)
        self._arrivals.tell(ev.CopyLost(copy))

    def left(self, worker: str) -> None:
        """A worker is gone: nobody waits for its hosts. Their places stay, as a sign that rows were lost there."""
        for (_, there), line in self.places.items():
            if there == worker:
                line.abandon()

    # --- cuts

    def publish(self, cut: Cut, copies: Sequence[int]) -> None:
        """Write the manifest once every copy told its part; a host that is lost before takes the cut with it."""
        parts: dict[int, HostPart] = {}

        def told(copy: int, part: HostPart) -> None:
            parts[copy] = part
            if len(parts) == len(copies):
                self._write(cut, [parts[copy] for copy in copies])

        for copy in copies:
            asked = self._copies[copy][1].ask("part", cut.number)
            self._arrivals.when(asked, partial(told, copy), partial(self._lose, copy))

    def _write(self, cut: Cut, parts: Sequence[HostPart]) -> None:
        self._arrivals.tell(self._keeper.publish(cut, parts))


def _nothing(answer: Any) -> None:
    """Nothing follows from the answer."""
