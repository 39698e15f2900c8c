"""A cluster in which everything goes wrong: the engine's part around the production state machines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from heterps.protocol import BatchKey, Cut, Phase, RunState, deal_shards
from heterps.protocol.run.found import found
from heterps.protocol.run.story import brief
from heterps.protocol.words import decisions as de, events as ev, group as gr, instructions as do
from heterps.protocol.words.messages import Acked, Reply, Request
from heterps.protocol.words.modes import Mode
from heterps.simulator import check
from heterps.simulator.actors import Copy, Task
from heterps.simulator.faults import fire, let_go
from heterps.simulator.member import Member
from heterps.simulator.network import Network, Process
from heterps.simulator.rows import SimulatedShard
from heterps.simulator.scenario import Scenario
from heterps.simulator.visit import Visit

__all__ = ["Disk", "Outcome", "World", "simulate"]

PATIENCE = 12_000
"""Steps after which a run counts as waiting for ever; undisturbed ones take a few hundred."""


class Disk:
    """What survives everything but a broken disk: parts of cuts, and the manifests of the published ones."""

    def __init__(self, beginning: Cut) -> None:
        self.full = False
        self.cuts = [beginning]
        """Published, oldest first."""
        self._broken: set[int] = set()
        self._parts: dict[int, tuple[dict[int, SimulatedShard], dict[str, Any] | None]] = {0: ({}, None)}

    @property
    def published(self) -> Cut:
        """The newest cut that can be read."""
        return next(cut for cut in reversed(self.cuts) if cut.number not in self._broken)

    def before(self, number: int) -> Cut:
        """Return the newest cut that was published before another; whether it can be read is seen by reading it."""
        return max((cut for cut in self.cuts if cut.number < number), key=lambda cut: cut.number)

    def break_newest(self) -> bool:
        """Make the newest cut unreadable; not the beginning, which is on no disk."""
        number = self.cuts[-1].number
        hit = number > 0 and number not in self._broken
        self._broken |= {number} if hit else set()
        return hit

    def is_broken(self, cut: int) -> bool:
        """Say whether a cut cannot be read."""
        return cut in self._broken

    def write(self, cut: int, rows: dict[int, SimulatedShard], state: dict[str, Any]) -> None:
        """Add one host's part."""
        self._parts.setdefault(cut, ({}, state))[0].update(rows)

    def drop(self, cut: int) -> None:
        """Remove the parts of a cut that was given up."""
        self._parts.pop(cut, None)

    def read(self, cut: int) -> tuple[dict[int, SimulatedShard], dict[str, Any] | None]:
        """Return the shards of a cut and the state beside them (drained: the same beside every part)."""
        return self._parts[cut]


@dataclass(slots=True)
class Outcome:
    """How a simulated run ended: ``problem`` is empty if it kept the promise."""

    problem: str
    steps: int
    fired: dict[str, int]
    met: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)


class World:
    """One scenario being played."""

    patience = PATIENCE

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.net = self.network()
        self.disk = Disk(Cut(mode=scenario.spec.mode.to_json()))
        self.processes: list[Process] = []
        self.copies: dict[int, Copy] = {}
        self.tasks: dict[int, Task] = {}
        self.members: dict[str, Member] = {}
        self.life = 0
        self.parted_until = 0.0
        self.rests = 0
        self.looks = 0
        self.ran: Counter[BatchKey] = Counter()  # how often batches were computed, where workers keep rows
        self.problem = ""
        self._adopted: dict[int, Copy] = {}  # what a driver before left, by host
        self._early: dict[tuple[str, int], list[Any]] = {}
        self._names = 0
        self._tables = 0
        self._wanted = 0  # the cut whose manifest is about to be written
        self._seen: Counter[str] = Counter()
        self._triggers = [fault for fault in scenario.faults if fault.after]
        self.run = RunState(scenario.spec)
        self.start_workers()
        if scenario.cut_every:
            self._ask_for_cut()

    def network(self) -> Network:
        """Return the network of the scenario."""
        return Network(self.scenario)

    def mode_on(self, process: Process) -> Mode:
        """Return the mode of attempts on a worker."""
        return self.scenario.spec.mode

    def task(self, process: Process, run: do.RunSplit) -> Task:
        """Return the task of an attempt."""
        return Task(self, process, run)

    def copy(self, process: Process, create: do.CreateHost) -> Copy:
        """Return the actor of a copy of a host."""
        return Copy(self, process, create)

    def _ask_for_cut(self) -> None:
        """Ask again and again, as a clock does that knows nothing of how long a cut takes."""
        self.handle(ev.CutAsked())
        self.net.at(self.scenario.cut_every, None, self._ask_for_cut)

    def new_tables(self) -> int:
        """Return a name for tables that a copy of a host has just got."""
        self._tables += 1
        return self._tables

    def start_workers(self) -> None:
        """Let the workers of all pools join."""
        for role, count in (
            ("server", self.scenario.servers),
            ("io", self.scenario.io),
            ("compute", self.scenario.compute),
        ):
            for _ in range(count):
                self.join(role)

    def join(self, role: str) -> Process:
        """Start a worker process."""
        self._names += 1
        process = Process(f"{role}{self._names}", role)
        if role == "io" and self.scenario.slow and self._names % self.scenario.slow == 0:
            process.pace = 8.0
        self.processes.append(process)
        self._tell_of(process, f"machine {self._names % 2}")
        return process

    def _tell_of(self, process: Process, machine: str) -> None:
        """Tell the driver that a process is there."""
        slots = self.scenario.slots if process.role == "io" else 1
        joined: ev.Event = ev.WorkerJoined(process.name, process.role, slots, process.stay)  # type: ignore[arg-type]
        if process.role == "server":
            joined = ev.ServersJoined((process.name,), (machine,), stays=(process.stay,))
        self.net.send(None, self._joined, joined, process, self.life, reliable=True)

    def come_back(self, process: Process) -> None:
        """A process that was given up answers again."""
        process.lost, process.stay = False, process.stay + 1
        self._tell_of(process, "machine 0")

    def _joined(self, joined: ev.Event, process: Process, life: int) -> None:
        """A new driver asks the scheduler who is there: it is told of no worker that was lost in a life before."""
        if life == self.life or not process.lost:
            self._admit(joined, process)

    def _admit(self, joined: ev.Event, *processes: Process) -> None:
        """Tell of processes that were there a moment ago; those that went meanwhile are missed at the next look."""
        self.handle(joined)
        for process in processes:
            if process.lost:
                self.post(ev.WorkerLost(process.name, process.stay))

    def play(self) -> str:
        """Let everything happen; return what went wrong, or nothing."""
        faults = [fault for fault in reversed(self.scenario.faults) if not fault.after]
        net = self.net
        while not self.problem and self.run.phase not in (Phase.FINISHED, Phase.ABORTED):
            if not net.step():
                return f"nothing happens any more in phase {self.run.phase}, waiting for {self.run.waiting_for()}"
            if net.steps > self.patience:
                return f"no end in sight in phase {self.run.phase}, waiting for {self.run.waiting_for()}"
            while faults and faults[-1].at <= net.steps:
                fire(self, faults.pop())
        return self.problem or check.final(self)

    # --- to and from the driver

    def post(self, event: ev.Event) -> None:
        """Send an event to the driver."""
        self.net.send(None, self.handle, event, reliable=True)

    def look(self, event: ev.Event, life: int) -> None:
        """Send what a driver sees when it looks at the cluster; another one looks for itself."""
        self.net.send(None, self._looked, event, life, reliable=True)

    def _looked(self, event: ev.Event, life: int) -> None:
        if life == self.life:
            self.handle(event)

    def handle(self, event: ev.Event) -> None:
        """Give an event to the driver now, and carry out what follows."""
        if self.net.trace is not None:
            self.net.trace.append(f"{self.net.now:8.2f} driver    {brief(event)}")
        if self._triggers:
            self._trigger(type(event).__name__)
        instructions = self.run.handle(event)
        self.net.met[type(event)] += 1
        if self.scenario.seed % 4 == 0:  # it takes an eighth of the time; a broken invariant shows in any quarter
            self.run.validate()
        for instruction in instructions:
            self.net.met[type(instruction)] += 1
            if self.net.trace is not None:
                self.net.trace.append(f"{'':18s} -> {brief(instruction)}")
            self._instruct(instruction)

    def _trigger(self, name: str) -> None:
        """Let faults happen that wait for an event: right after it was handled."""
        self._seen[name] += 1
        for fault in [fault for fault in self._triggers if fault.after == name and fault.at == self._seen[name]]:
            self._triggers.remove(fault)
            self.net.at(0, None, fire, self, fault)

    def _instruct(self, instruction: Any) -> None:
        kind = type(instruction)
        if kind is do.RunSplit or kind is do.CreateHost:
            process = self.process(instruction.worker)
            self.net.send(
                process, self._begin if kind is do.RunSplit else self._create, process, instruction, reliable=True
            )
        elif hasattr(instruction, "attempt"):
            self._to_task(instruction)
        elif hasattr(instruction, "copy"):
            self.to_copy(instruction.copy, instruction, reliable=True)
        else:
            getattr(self, _FOR_ENGINE[kind])(instruction)

    def process(self, name: str) -> Process:
        """Return a process by name."""
        return next(process for process in self.processes if process.name == name)

    def member(self, process: Process) -> Member:
        """Return the member of the all-reduce group that lives in a worker that computes."""
        return self.members.setdefault(process.name, Member(self, process))

    def _to_member(self, instruction: gr.FormGroup | gr.CatchUp | gr.WriteBack) -> None:
        process = self.process(instruction.worker)
        self.net.send(process, self.member(process).receive, instruction, reliable=True)

    def _begin(self, process: Process, run: do.RunSplit) -> None:
        if run.attempt not in self.tasks:
            task = self.tasks[run.attempt] = self.task(process, run)
            task.start()
            for message in self._early.pop(("attempt", run.attempt), ()):
                task.receive(message)

    def _to_task(self, instruction: Any) -> None:
        task = self.tasks.get(instruction.attempt)
        if task is None:  # the task is not there yet: its worker keeps the instruction for it
            self._early.setdefault(("attempt", instruction.attempt), []).append(instruction)
        else:
            self.net.send(task.process, task.receive, instruction, reliable=True)

    def _create(self, process: Process, create: do.CreateHost) -> None:
        if create.adopt and create.term >> 32 != self.life:  # its driver has died, too: nobody holds them for it
            return
        if create.adopt and self._adopted[create.host].process is not process:  # there are no tables to adopt
            create = replace(create, adopt=False)
        if create.copy not in self.copies:
            self.copies[create.copy] = self.copy(process, create)
            if create.adopt:
                self.copies[create.copy].take_over(self._adopted[create.host])
        self.copies[create.copy].receive(create)
        for message in self._early.pop(("copy", create.copy), ()):
            self.copies[create.copy].receive(message)

    def to_copy(self, number: int, message: Any, tag: Any = None, payload: Any = None, reliable: bool = False) -> None:
        """Send a message to a copy of a host."""
        if self.net.now < self.parted_until and type(message) in _BETWEEN_COPIES:
            return
        copy = self.copies.get(number)
        if copy is not None:
            self.net.send(copy.process, copy.receive, message, tag, payload, reliable=reliable)
        elif reliable:
            self._early.setdefault(("copy", number), []).append(message)

    def to_stage(self, name: str, task: Task, key: BatchKey) -> None:
        """Have a batch computed on a compute worker."""
        process = self.process(name)
        if not process.lost:
            self.net.send(process, self._step, process, task, key, task.client.layout.group)

    def _step(self, process: Process, task: Task, key: BatchKey, term: int | None) -> None:
        if not self.scenario.spec.group:
            self.net.send(task.process, task.computed, key, process.name)
        elif self.member(process).state.has_parameters_of(term):  # else no answer, as from a worker that is lost
            self.net.send(task.process, task.computed, key, process.name, self.computed_there(process, task, key))

    def computed_there(self, process: Process, task: Task, key: BatchKey) -> tuple[BatchKey, int]:
        """On a stage worker that is a member of a group: compute with its parameters, and leave the gradient there."""
        member = self.member(process)
        made = task.gradient(key, (self.scenario.spec.shards, member.shard.value))
        member.leave(made)
        return made

    def to_home(self, task: Task, host: int, request: Request) -> None:
        """Take a lane's request to the group: to the member where the lane computes, without a gradient."""
        home = task.client.layout.home(task.run.lane)
        if not home or (process := self.process(home)).lost:
            return  # no answer

        def answered(reply: Reply, _: Any) -> None:
            self.net.send(task.process, task.answered, host, request, reply, None)

        self.net.send(process, self.member(process).asked, request, answered)

    # --- instructions for the engine itself

    def _need_splits(self, need: do.NeedSplits) -> None:
        count = len(self.scenario.splits)
        first = self.scenario.servers + 1  # names are numbered in the order in which workers joined
        homes = tuple((f"io{first + n % self.scenario.io}",) for n in range(count)) if self.scenario.held else ()
        if self.scenario.lazy:
            for known in range(1, count):
                part = ev.SplitsReady(need.pass_, known, False, homes[:known])
                self.net.at(20 * self.net.random(), None, self.handle, part)
        until = 20.0 if self.scenario.lazy else self.net.listing()
        self.net.at(until, None, self.handle, ev.SplitsReady(need.pass_, count, True, homes))

    def _create_stage(self, create: do.CreateStage) -> None:
        process = self.process(create.worker)
        self.members.pop(process.name, None)  # another actor, and so another member of a group
        self.net.send(process, self._stage_made, process, reliable=True)

    def _stage_made(self, process: Process) -> None:
        self.post(ev.StageReady(process.name))

    def _publish(self, publish: do.PublishCut) -> None:
        self._wanted = publish.cut.number
        self.net.at(self.net.publishing(), None, self._published, publish.cut)

    def _published(self, cut: Cut) -> None:
        """Write the manifest and say so in one act, unless the cut was given up, or its driver has died."""
        if cut.number == self._wanted:
            self.disk.cuts.append(cut)
            self.problem = self.problem or check.cut(self, cut)
            self.handle(ev.CutPublished(cut.number))

    def _rest(self, rest: do.Rest) -> None:
        Visit(self, rest).begin()

    def _drop(self, drop: do.DropCut) -> None:
        self._wanted = 0
        self.disk.drop(drop.cut)

    def _move(self, move: do.MoveShards) -> None:
        Mover(self, move).tick()

    def _let_go(self, go: do.LetGo) -> None:
        let_go(self, self.process(go.worker))

    def _finish(self, finish: do.Finish) -> None:
        return

    def _abort(self, abort: do.Abort) -> None:
        return

    def restart(self) -> None:
        """The driver dies with its scheduler; a new one goes on from what is on disk, with new workers."""
        self.life, self._wanted = self.life + 1, 0
        self.run = RunState(self.scenario.spec, cut=self.disk.published, life=self.life)
        self._early.clear()
        self.start_workers()

    def lose_driver(self) -> bool:
        """The driver dies alone; another one finds what it left, and goes on from there, or from what is on disk."""
        left, spec = self.run.layout().copies, self.scenario.spec
        hosts = [self.copies.get(number) for number in left]
        there = [copy for copy in hosts if copy is not None and copy.is_there]
        still = self.run.fleet.owners == deal_shards(
            spec.shards, spec.hosts - spec.stage_hosts
        )  # where the next driver expects them
        adopts = len(there) == len(hosts) and not spec.group and not spec.stage_hosts and still
        for copy in self.copies.values():  # what old attempts still send changes nothing any more
            copy.retired = True
        told = [copy.state.standing() for copy in there]
        cut = self.disk.published
        where = found(cut, told, ordered=spec.mode.ordered) if adopts else None
        self.life, self._wanted = self.life + 1, 0
        self.run = RunState(spec, cut=cut, life=self.life, found=where)
        self._adopted = {copy.host: copy for copy in there} if where is not None else {}
        self._early.clear()
        self._rejoin()
        return where is not None

    def _rejoin(self) -> None:
        """Let the workers join that are there, servers with what they hold."""
        there = [process for process in self.processes if process.alive and not process.lost]
        servers = tuple(process.name for process in there if process.role == "server")
        holds = tuple((host, copy.process.name) for host, copy in self._adopted.items())
        machines = tuple(f"machine {n % 2}" for n in range(len(servers)))
        stays = tuple(process.stay for process in there if process.role == "server")
        self.net.send(None, self._found, ev.ServersJoined(servers, machines, holds, stays), self.life, reliable=True)
        for process in there:
            if process.role != "server":
                self._tell_of(process, "")

    def _found(self, joined: ev.ServersJoined, life: int) -> None:
        if life == self.life:
            self._admit(joined, *map(self.process, joined.workers))


_BETWEEN_COPIES = (de.Forward, de.Fill, de.Confirm)

_FOR_ENGINE = {
    do.NeedSplits: "_need_splits",
    do.CreateStage: "_create_stage",
    do.PublishCut: "_publish",
    do.DropCut: "_drop",
    do.Rest: "_rest",
    do.MoveShards: "_move",
    do.LetGo: "_let_go",
    do.Finish: "_finish",
    do.Abort: "_abort",
    gr.FormGroup: "_to_member",
    gr.CatchUp: "_to_member",
    gr.WriteBack: "_to_member",
}


class Mover:
    """Copies rows from their owners to the target of a move, and tries again until that worked."""

    def __init__(self, world: World, move: do.MoveShards) -> None:
        self.world, self.move = world, move
        self.process = Process("mover", "driver")
        owners = move.layout.owners
        self._missing = {owners[shard] for shard in move.shards}
        self._tries = 30

    def tick(self) -> None:
        """Ask every source that has not delivered."""
        self._tries -= 1
        if self._missing and self._tries:
            for source in self._missing:
                copy = self.world.copies[self.move.layout.copies[source]]
                self.world.net.send(copy.process, self._read, copy, source)
            self.world.net.at(self.world.net.timeout, None, self.tick)

    def _read(self, copy: Copy, source: int) -> None:
        """On the source: send the rows to the target, if it still is what it was."""
        layout = self.move.layout
        if copy.state.serving and copy.state.term == layout.terms[source]:
            shards = tuple(s for s in self.move.shards if layout.owners[s] == source and s in copy.rows)
            rows = {number: copy.rows[number].copy() for number in shards}
            message = de.TakeIn(layout.terms[self.move.target], shards)
            self.world.to_copy(layout.copies[self.move.target], message, (self, source), rows)

    def answered(self, host: int, source: int, reply: Any, values: Any) -> None:
        """The target has them."""
        if type(reply) is Acked and source in self._missing:
            self._missing.discard(source)
            if not self._missing:
                self.world.post(ev.ShardsCopied(self.move.move))


def simulate(scenario: Scenario, *, trace: bool = False) -> Outcome:
    """Play a scenario to its end and say whether the promise was kept."""
    world = World(scenario)
    if trace:
        world.net.trace = []
    try:
        problem = world.play()
    except Exception as error:  # whatever the production code raises is a finding
        problem = f"{type(error).__name__}: {error}"
    met = {kind.__name__: count for kind, count in world.net.met.items()}
    return Outcome(problem, world.net.steps, dict(world.net.fired), met, world.net.trace or [])
