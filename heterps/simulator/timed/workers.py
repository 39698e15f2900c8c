"""What the engine has on workers, with what it takes there: hosts, attempts, readers, members of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from heterps.protocol import BatchKey
from heterps.protocol.client import state as cl
from heterps.protocol.client.credits import Credits
from heterps.protocol.words import decisions as de, events as ev, group as gr, instructions as do
from heterps.protocol.words.messages import Granted, Pull, Push, Reply, Request
from heterps.simulator.actors import READ_AHEAD, Copy, Task
from heterps.simulator.member import Member
from heterps.simulator.network import Process
from heterps.simulator.timed.cores import Cores, Thread

if TYPE_CHECKING:
    from heterps.simulator.timed.world import TimedWorld

__all__ = ["ReadingWorker", "TimedCopy", "TimedMember", "TimedTask"]


class TimedCopy(Copy):
    """A copy of a shard host: requests take cores; in Sync one after another, else beside each other."""

    world: TimedWorld

    def __init__(self, world: TimedWorld, process: Process, create: do.CreateHost) -> None:
        super().__init__(world, process, create)
        self._line = world.timed.thread(process) if world.scenario.spec.mode.ordered else None

    def receive(self, message: Any, tag: Any = None, payload: Any = None) -> None:
        """Take a message after what it takes."""
        seconds = self._seconds(message.request if type(message) is de.Forward else message)
        if not seconds:
            super().receive(message, tag, payload)
        elif self._line is not None:
            self._line.do(seconds, super().receive, message, tag, payload)
        else:
            self.world.timed.thread(self.process).do(seconds, super().receive, message, tag, payload)

    def _seconds(self, message: Any) -> float:
        times, kind = self.world.durations.hosts, type(message)
        if kind is Pull:
            return times.serve_s / times.count + times.call_s
        if kind is Push:
            mode = self.state.mode
            whole = times.apply_s * message.batches if mode.has_ranges or not mode.adds else 0.0
            whole += times.settle_s if message.settles else 0.0
            return whole / times.count + times.call_s
        return 0.0


class TimedMember(Member):
    """A member of an all-reduce group: it steps when the last sum has come."""

    world: TimedWorld

    def receive(self, message: Any, tag: Any = None, payload: Any = None) -> None:
        """Take a message; the last sum after what a step takes."""
        if type(message) is gr.Fetched:
            others = max(1, len(self.state.members) - 1)
            thread = self.world.timed.thread(self.process)
            thread.do(self.world.durations.group_s / others, super().receive, message, tag, payload)
        else:
            super().receive(message, tag, payload)


class ReadingWorker:
    """What the attempts of one worker share: its place in the pipeline, credits, and whose turn it is."""

    def __init__(self, number: int, pool: str) -> None:
        self.number, self.pool = number, pool
        self.credits = Credits(number)
        self.running: TimedTask | None = None
        self.waiting: list[TimedTask] = []


class _Reader:
    """Reads a Split ahead in a thread of its own."""

    def __init__(self, thread: Thread, seconds: float, start: int, batches: int) -> None:
        self._thread, self._seconds, self._batches = thread, seconds, batches
        self._read = self._taken = start
        self._wanted: tuple[int, Callable[[], object]] | None = None
        self._reading = False
        self._go_on()

    def _go_on(self) -> None:
        if not self._reading and self._read < self._batches and self._read - self._taken < READ_AHEAD + 1:
            self._reading = True
            self._thread.do(self._seconds, self._has_read)

    def _has_read(self) -> None:
        self._reading = False
        self._read += 1
        self._give()
        self._go_on()

    def ask(self, n: int, then: Callable[[], object]) -> None:
        """Call back when batch ``n`` is there, or the end is known."""
        self._wanted = (n, then)
        self._give()

    def _give(self) -> None:
        if self._wanted is not None and (self._read > self._wanted[0] or self._wanted[0] >= self._batches):
            (n, then), self._wanted = self._wanted, None
            self._taken = n + 1
            then()
            self._go_on()


class TimedTask(Task):
    """An attempt: a thread that reads ahead, and one in which all else happens; on a worker one after another."""

    world: TimedWorld

    def __init__(self, world: TimedWorld, process: Process, run: do.RunSplit) -> None:
        super().__init__(world, process, run)
        self._times, self._hosts = world.durations.worker, world.durations.hosts.count
        self._io = world.io_worker(process)
        self.client.credits = self._io.credits
        self._thread = world.timed.thread(process, world.noted)
        batches = 0 if run.split is None else world.scenario.splits[run.split]
        self._batches = batches
        self._reader = _Reader(world.timed.thread(process), self._times.read_s, run.start, batches)
        self._ending = False

    @property
    def _turns(self) -> bool:
        """Whether the worker runs one attempt at a time: lanes of a worker run beside each other."""
        return not self.client.mode.ordered

    def start(self) -> None:
        """Begin, or wait until the attempt before has ended."""
        if self._turns and self._io.running is not None:
            self._io.waiting.append(self)
            return
        self._io.running = self
        super().start()

    def _act(self, actions: list[cl.Action]) -> None:
        super()._act(actions)
        if self.client.stopped:
            self._give_up_turn()

    def _give_up_turn(self) -> None:
        if self._io.running is self:
            self._io.running = None
            if self._io.waiting:
                self._io.waiting.pop(0).start()

    def _note(self, n: int, backward: bool) -> tuple[int, int, BatchKey, bool]:
        return (0, self._io.number, BatchKey(self.run.pass_, self.run.split or 0, n), backward)

    # --- what comes

    def receive(self, message: Any) -> None:
        """Take an instruction of the run, for which it begins even if it is not its turn."""
        if self in self._io.waiting:
            self._io.waiting.remove(self)
            super().start()
        self._thread.do(0.0, super().receive, message)

    def answered(self, host: int, request: Request, reply: Reply, values: Any) -> None:
        """An answer of a host arrived."""
        seconds, note = self._times.call_s, None
        if type(request) is Pull and type(reply) is Granted and host < self._hosts:
            seconds += self._times.take_s / self._hosts
            note = self._note(request.key.n, False)
        self._thread.do(seconds, super().answered, host, request, reply, values, note=note)

    def computed(self, key: BatchKey, stage: str, made: tuple[BatchKey, int] | None = None) -> None:
        """Gradients are there; where another worker computed them, this stage's own backward follows."""
        if not stage:
            super().computed(key, stage)
            return
        begun, there = self.world.begun.pop((key, stage), (self.world.net.now, 1))
        self._io.credits.measured(stage, (self.world.net.now - begun) / there)
        own = self.world.durations.stages[0]
        seconds = own.backward_s + self._times.call_s
        self._thread.do(seconds, super().computed, key, stage, made, note=self._note(key.n, True))

    # --- what it does

    def _read(self, read: cl.Read) -> None:
        if read.n >= self._batches - READ_AHEAD and not self.client.mode.ordered and not self._ending:
            self._ending = True
            self.world.post(ev.SplitEnding(self.run.attempt))
        last = read.n >= self._batches
        message = cl.SplitEnded(self._batches) if last else cl.BatchRead(read.n)
        seconds, note = (0.0, None) if last else (self._times.begin_s, self._note(read.n, False))

        def gate(then: Callable[[], object]) -> None:
            self._reader.ask(read.n, then)

        self._thread.do(seconds, super().receive, message, own=True, note=note, gate=gate)

    def _compute(self, compute: cl.Compute) -> None:
        key, stage = compute
        own = self.world.durations.stages[0]
        if stage:
            note = self._note(key.n, False)
            self._thread.do(own.forward_s, self._hand_on, compute, own=True, note=note)
        else:
            super()._compute(compute)

    def _compute_here(self, key: BatchKey) -> None:
        own, learns = self.world.durations.stages[0], self.client.mode.adds
        seconds = own.forward_s + own.backward_s + (self._times.learn_s if learns else 0.0)
        self._thread.do(seconds, self.computed, key, "", own=True, note=self._note(key.n, False))

    def _hand_on(self, compute: cl.Compute) -> None:
        waiting = max(1, self._io.credits.waiting.get(compute.stage, 1))
        self.world.begun[compute.key, compute.stage] = (self.world.net.now, waiting)
        super()._compute(compute)

    def _send(self, send: cl.Send) -> None:
        if type(send.request) is Push and send.host < self._hosts:
            batches = 1 if self.client.mode.adds else send.request.batches
            seconds = self._times.push_s * batches / self._hosts + self._times.call_s
            seconds += self._times.settle_s / self._hosts if send.request.settles else 0.0
            self._thread.do(seconds, super()._send, send, own=True, note=self._note(send.request.key.n, True))
        else:
            super()._send(send)

    def _free(self, free: cl.Free) -> None:
        super()._free(free)
        self.world.finished(free.key, free.batches)

    def _tell(self, tell: cl.Tell) -> None:
        super()._tell(tell)
        if type(tell.event) is ev.SplitDone:
            self._give_up_turn()


class _Handed(NamedTuple):
    """A batch that is with the next stage: to whom it was handed, when, and how many of this sender were there then."""

    to: str
    at: float
    there: int


class StageWorker:
    """A worker of a stage behind the first: one batch computes at a time, others wait or are with a later stage."""

    def __init__(self, world: TimedWorld, stage: int, number: int, process: Process) -> None:
        self.world, self.stage, self.number, self.process = world, stage, number, process
        self._times = world.durations.stages[stage]
        self._thread = world.timed.thread(process, world.noted)
        self._bus = Cores(world.timed, 1.0)  # copies between memories take no core
        self._credits = Credits(number)

    def step(self, key: BatchKey, then: Callable[[], object]) -> None:
        """Run a batch through this stage and those behind it; parameters come from the hosts first."""
        left = [self.world.durations.hosts.count if self._times.dense_bytes else 0]
        if not left[0]:
            self._enter(key, then)
            return

        def filled() -> None:
            left[0] -= 1
            if not left[0]:
                self._enter(key, then)

        for copy in self.world.primaries():
            self.world.timed.send(copy.process, self._asked, copy, filled)

    def _asked(self, copy: TimedCopy, filled: Callable[[], object]) -> None:
        """On a host: send the parameters."""
        seconds = self._times.dense_call_s / self.world.durations.hosts.count
        self.world.timed.thread(copy.process).do(seconds, self._sent, filled)

    def _sent(self, filled: Callable[[], object]) -> None:
        self.world.timed.send(self.process, self.filled, self.stage, filled)

    def filled(self, stage: int, then: Callable[[], object]) -> None:
        """Parameters of one host are there."""
        then()

    def _enter(self, key: BatchKey, then: Callable[[], object]) -> None:
        self._bus.work(self._times.bus_s / 2, self.process, lambda: self._forward(key, then))

    def _forward(self, key: BatchKey, then: Callable[[], object]) -> None:
        times = self._times
        if self.stage == len(self.world.durations.stages) - 1:
            seconds = times.enter_s + times.forward_s + times.backward_s
            self._thread.do(seconds, self._leave, then, note=self._note(key, True))
        else:
            seconds = times.enter_s + times.forward_s
            self._thread.do(seconds, self._hand_on, key, then, note=self._note(key, False))

    def _hand_on(self, key: BatchKey, then: Callable[[], object]) -> None:
        name = self._credits.take(self.world.behind(self.stage))
        other, handed = self.world.stage_worker(name), _Handed(name, self.world.net.now, self._credits.waiting[name])
        self.world.timed.send(other.process, self._at_next, other, key, handed, then)

    def _at_next(self, other: StageWorker, key: BatchKey, handed: _Handed, then: Callable[[], object]) -> None:
        """On the worker of the next stage."""
        other.step(key, lambda: self.world.timed.send(self.process, self._back, other.stage, key, handed, then))

    def _back(self, stage: int, key: BatchKey, handed: _Handed, then: Callable[[], object]) -> None:
        self._credits.give_back(handed.to)
        self._credits.measured(handed.to, (self.world.net.now - handed.at) / handed.there)
        self._thread.do(self._times.backward_s, self._leave, then, own=True, note=self._note(key, True))

    def _leave(self, then: Callable[[], object]) -> None:
        self._bus.work(self._times.bus_s / 2, self.process, then)

    def _note(self, key: BatchKey, backward: bool) -> tuple[int, int, BatchKey, bool]:
        return (self.stage, self.number, key, backward)
