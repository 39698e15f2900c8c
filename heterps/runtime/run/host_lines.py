"""The shard hosts of a run on a cluster: making them, handing them instructions, gathering the parts of a cut."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
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
from heterps.runtime.run.line import ActorLine, close_all
from heterps.runtime.run.places import Places
from heterps.runtime.run.remote import Remote
from heterps.runtime.wire.service import Address
from heterps.runtime.workers.host_actor import HostActor

__all__ = ["HostLines", "host_line"]

_log = logging.getLogger("heterps")


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
        self._attached: dict[int, do.Attach] = {}  # backups that the run wants to be filled, by copy
        self._gone: set[str] = set()  # workers that were lost
        self._begun: set[int] = set()  # hosts that had a copy in this run: another one has lost its rows
        self._by_host: dict[int, Address] = {}  # of the newest copy of each host
        self._wanted = 0  # the cut whose manifest is to be written

    @property
    def all(self) -> list[Address] | None:
        """Where the hosts are, in order; None until every one has been somewhere."""
        if len(self._by_host) < self._job.hosts:
            return None
        return [self._by_host[host] for host in range(self._job.hosts)]

    def create(self, create: do.CreateHost) -> None:
        """Make a copy of a shard host: a backup, one that loads a cut, or the one of the run before."""
        host, worker = create.host, create.worker
        self._gone.discard(worker)  # it may have come back
        if create.cut is None:
            self._begin(create, self._line_at(host, worker), backup=create.owned)
            return
        before = self.places.answering.get(host)
        if create.adopt:
            self._begun.add(host)
            self._begin(create, self.places.lines[host, worker])
            return
        returns = host in self._begun or before not in (None, worker)
        if returns:
            self._check_return(host, create.cut)
            if before not in (None, worker):
                self._drop(host, before)
        elif before == worker:
            create = self._keeper.as_held(create)
        self._begun.add(host)
        self._begin(create, self.places.set(host, worker, self._line_at(host, worker)), returns)

    def _line_at(self, host: int, worker: str) -> ActorLine:
        place = (host, worker)
        if place not in self.places.lines:
            self.places.lines[place] = host_line(self._client, self._job, host, worker)
        return self.places.lines[place]

    def _drop(self, host: int, worker: str | None) -> None:
        line = self.places.lines.pop((host, worker or ""), None)
        if line is not None:
            line.abandon()

    def _begin(
        self, create: do.CreateHost, line: ActorLine, returns: bool = False, backup: tuple[int, ...] | None = None
    ) -> None:
        self._copies[create.copy] = create.host, line
        every = self._keeper.cut_every(create.host)
        about = self._keeper.about()
        args = (self._run, create.copy, every, backup, about, create.adopt, self._job.rate)
        begun = line.ask("begin", *args, patient=True)
        self._arrivals.when(begun, partial(self._placed, create, returns), partial(self._lose, create.copy))

    def _placed(self, create: do.CreateHost, returns: bool, address: Address) -> None:
        """It can be reached: only now it may say that it is ready, or be filled."""
        self.addresses[create.copy] = address
        self._deliver(create.copy, create, create.cut, returns)
        if create.cut is None:
            self._attach(create.copy)
        else:
            self._answers(create.copy)

    def _answers(self, copy: int) -> None:
        """A copy is the one to ask for its host from now on."""
        self._by_host[self._copies[copy][0]] = self.addresses[copy]
        self._on_ready()

    # --- instructions

    def deliver(self, instruction: HostInstruction) -> None:
        """Hand an instruction to a copy."""
        match instruction:
            case do.Attach(backup=backup):
                self._attached[backup] = instruction
                self._attach(backup)
            case do.Discard(copy):
                self._discard(copy)
            case do.Promote(copy):
                self._promote(instruction)
            case _:
                self._hand_on(instruction)

    def _hand_on(self, instruction: HostInstruction) -> None:
        cut = getattr(instruction, "cut", None)
        returns = isinstance(instruction, do.Rewind)
        if returns:
            self._check_return(self._copies[instruction.copy][0], cut)
        if isinstance(instruction, do.Detach):
            self._attached.pop(instruction.backup, None)
        self._deliver(instruction.copy, instruction, cut, returns)

    def _attach(self, backup: int) -> None:
        """Tell the primary where its backup is, once that can be reached and the run wants it filled."""
        attach = self._attached.get(backup)
        if attach is None or backup not in self.addresses:
            return
        told = self._copies[attach.copy][1].ask("attach", attach, self.addresses[backup])
        self._arrivals.when(told, _nothing, partial(self._lose, attach.copy))

    def _promote(self, promote: do.Promote) -> None:
        host, line = self._copies[promote.copy]
        before = self.places.answering.get(host)
        self.places.set(host, line.worker, line)
        if before in self._gone:
            _log.warning("shard host %d is lost on worker %s, worker %s has its backup", host, before, line.worker)
            self._drop(host, before)
        self._deliver(promote.copy, promote, None)
        self._answers(promote.copy)

    def _discard(self, copy: int) -> None:
        """End the actor of a copy that does not answer any more, unless another one has taken its place there."""
        host, line = self._copies[copy]
        newest = max(number for number, (_, there) in self._copies.items() if there is line)
        if newest == copy and self.places.answering.get(host) != line.worker:
            self.places.lose(host, line)
            line.close()

    def _deliver(self, copy: int, instruction: do.Instruction, cut: int | None, returns: bool = False) -> None:
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
        self.places.lose(host, line)
        self._on_lost(line.worker, error)
        self._arrivals.tell(ev.CopyLost(copy))

    def left(self, worker: str) -> None:
        """A worker is gone: nobody waits for its hosts. Those that answered stay, as a sign that rows were lost."""
        self._gone.add(worker)
        for place, line in self.places.on(worker):
            line.abandon()
            if place in self.places.backups():
                del self.places.lines[place]

    def end(self) -> None:
        """Let backups go: between runs nothing is forwarded to them."""
        for backup, attach in self._attached.items():
            self._copies[attach.copy][1].ask("deliver", do.Detach(attach.copy, backup))
        self._attached.clear()
        close_all([self.places.lines.pop(place) for place in self.places.backups()])

    def retire(self) -> list[Future[None]]:
        """Have the copies of this run change nothing any more, whatever comes late from its workers."""
        there = {id(line): line for copy, (_, line) in self._copies.items() if copy in self.addresses}
        return [line.ask("retire", self._run) for line in there.values()]

    # --- cuts

    def publish(self, cut: Cut, copies: Sequence[int]) -> None:
        """Write the manifest once every copy told its part; a host that is lost before takes the cut with it."""
        parts: dict[int, HostPart] = {}
        self._wanted = cut.number

        def told(copy: int, part: HostPart) -> ev.Event | None:
            parts[copy] = part
            whole = self._wanted == cut.number and len(parts) == len(copies)
            return self._keeper.publish(cut, [parts[copy] for copy in copies]) if whole else None

        for copy in copies:
            asked = self._copies[copy][1].ask("part", cut.number)
            self._arrivals.when(asked, partial(told, copy), partial(self._lose, copy))

    def drop(self, cut: int) -> None:
        """Write no manifest of a cut that was given up."""
        self._wanted = 0
        self._keeper.drop(cut)


def _nothing(answer: Any) -> None:
    """Nothing follows from the answer."""
