"""A cluster that takes time: the simulated one with threads, cores and wires, in which nothing fails."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from heterps.protocol import BatchKey
from heterps.protocol.words import decisions as de, events as ev, group as gr, instructions as do
from heterps.protocol.words.messages import Granted, Pull, Push
from heterps.protocol.words.modes import Mode
from heterps.simulator.actors import Task
from heterps.simulator.network import Process
from heterps.simulator.scenario import Scenario
from heterps.simulator.timed.durations import Crew, Durations
from heterps.simulator.timed.network import TimedNetwork
from heterps.simulator.timed.workers import ReadingWorker, StageWorker, TimedCopy, TimedMember, TimedTask
from heterps.simulator.world import World

__all__ = ["TimedWorld"]

Bar = tuple[int, int, BatchKey, bool, float, float]
"""Stage, worker, batch, backward, start, stop."""


class TimedWorld(World):
    """A scenario with what everything takes."""

    timed: TimedNetwork

    def __init__(self, scenario: Scenario, durations: Durations, depths: Mapping[str, int] | None = None) -> None:
        self.durations, self._depths = durations, depths or {}  # batches in flight, by pool that reads
        self.begun: dict[tuple[BatchKey, str], tuple[float, int]] = {}  # handed on: when, and how many were there
        self.ends: list[float] = []  # when each batch was done
        self.bars: list[Bar] = []
        self._io: dict[Process, ReadingWorker] = {}
        self._stages: dict[str, StageWorker] = {}
        self._behind: dict[int, list[str]] = {}
        self._joined_io = self._joined_compute = 0
        batches = scenario.spec.passes * sum(scenario.splits)
        self.patience = 100_000 + 1_000 * batches * (durations.hosts.count + scenario.io)  # ten times what it takes
        super().__init__(scenario)

    def network(self) -> TimedNetwork:
        """Return the network, whose messages are as large as the figures say."""
        self.timed = TimedNetwork(self.scenario, self.durations, self._size)
        return self.timed

    def mode_on(self, process: Process) -> Mode:
        """Return the mode of attempts on a worker: as deep as its pool is."""
        mode = self.scenario.spec.mode
        depth = self._depths.get(self._io[process].pool)
        return mode if depth is None else mode.at_depth(depth)

    def task(self, process: Process, run: do.RunSplit) -> Task:
        """Return the task of an attempt."""
        return TimedTask(self, process, run)

    def copy(self, process: Process, create: do.CreateHost) -> TimedCopy:
        """Return the actor of a copy of a host."""
        return TimedCopy(self, process, create)

    def member(self, process: Process) -> TimedMember:
        """Return the member of the all-reduce group that lives in a worker that computes."""
        if process.name not in self.members:
            self.members[process.name] = TimedMember(self, process)
        found = self.members[process.name]
        assert isinstance(found, TimedMember)
        return found

    # --- workers

    def start_workers(self) -> None:
        """Let the workers of all pools join, those of later stages beside the protocol: it does not know them."""
        for stage in range(2, len(self.durations.stages)):
            crews = [crew for crew in self.durations.stages[stage].crews for _ in range(crew.workers)]
            for number, crew in enumerate(crews):
                self._make_stage(stage, number, Process(f"stage{stage}-{number}", "compute"), crew.pool, crew.pace)
        self._join_servers()
        for role, count in (("io", self.scenario.io), ("compute", self.scenario.compute)):
            for _ in range(count):
                self.join(role)

    def _join_servers(self) -> None:
        """Let all servers join at once: hosts are spread over those that are there."""
        servers = [Process(f"server{number + 1}", "server") for number in range(self.scenario.servers)]
        for process in servers:
            self.processes.append(process)
            self.timed.settle(process, self.durations.hosts.pool)
        names = tuple(process.name for process in servers)
        joined = ev.ServersJoined(names, tuple(f"machine of {name}" for name in names))
        self.net.send(None, self._joined, joined, servers[0], self.life, reliable=True)

    def join(self, role: str) -> Process:
        """Start a worker process where its pool is."""
        process = super().join(role)
        if role == "io":
            crew = self._crew(0, self._joined_io)
            process.pace = crew.pace
            self.timed.settle(process, crew.pool)
            self._io[process] = ReadingWorker(self._joined_io, crew.pool)
            self._joined_io += 1
        else:
            crew = self._crew(1, self._joined_compute)
            self._make_stage(1, self._joined_compute, process, crew.pool, crew.pace)
            self._joined_compute += 1
        return process

    def _crew(self, stage: int, number: int) -> Crew:
        return [crew for crew in self.durations.stages[stage].crews for _ in range(crew.workers)][number]

    def _make_stage(self, stage: int, number: int, process: Process, pool: str, pace: float) -> None:
        process.pace = pace
        self.timed.settle(process, pool)
        self._stages[process.name] = StageWorker(self, stage, number, process)
        self._behind.setdefault(stage - 1, []).append(process.name)

    def io_worker(self, process: Process) -> ReadingWorker:
        """Return what the attempts of a worker share."""
        return self._io[process]

    def behind(self, stage: int) -> list[str]:
        """Return the workers of the stage after one."""
        return self._behind[stage]

    def stage_worker(self, name: str) -> StageWorker:
        """Return a worker of a later stage."""
        return self._stages[name]

    def primaries(self) -> list[TimedCopy]:
        """Return the copies of hosts that serve now."""
        found = [self.copies[number] for number in self.run.layout().copies]
        return [copy for copy in found if isinstance(copy, TimedCopy)]

    def _step(self, process: Process, task: Task, key: BatchKey, term: int | None) -> None:
        self._stages[process.name].step(key, partial(super()._step, process, task, key, term))

    # --- what is seen

    def finished(self, key: BatchKey, batches: int) -> None:
        """Take note that batches are done."""
        self.ends += [self.net.now] * batches

    def noted(self, note: tuple[int, int, BatchKey, bool], start: float, stop: float) -> None:
        """Take note of work on a batch."""
        self.bars.append((*note, start, stop))

    # --- bytes

    def _size(self, act: str, args: tuple[Any, ...]) -> float:
        """Bytes of a message, by what it is for."""
        hosts = self.durations.hosts
        if act == "answered" and type(args[1]) is Pull and type(args[2]) is Granted and args[0] < hosts.count:
            return hosts.pull_bytes / hosts.count
        if act == "answered" and type(args[1]) is Push and args[1].settles:
            return hosts.settle_bytes / hosts.count
        if act == "receive":
            return self._received(args[0])
        if act == "_given":
            return self._segment_bytes
        return self._between_stages(act, args)

    @property
    def _segment_bytes(self) -> float:
        """What a member of an all-reduce group owns of a gradient."""
        return self.durations.group_bytes / max(1, self.scenario.compute or self.scenario.io)

    def _between_stages(self, act: str, args: tuple[Any, ...]) -> float:
        """Bytes of what stages send each other, and get from the hosts; 0 for all else."""
        number: int = 1 if act in ("_step", "computed") else args[0].stage if act == "_at_next" else 0
        if act in ("_back", "filled"):
            number = args[0]
        if not number:
            return 0.0
        stage = self.durations.stages[number]
        if act in ("_step", "_at_next"):
            return stage.forward_bytes
        if act == "filled":
            return stage.dense_bytes / stage.dense_every / self.durations.hosts.count
        return stage.backward_bytes + sum(each.dense_bytes for each in self.durations.stages[number:])

    def _received(self, message: Any) -> float:
        hosts = self.durations.hosts
        request = message.request if type(message) is de.Forward else message
        if type(message) is gr.Relayed and type(message.request) is Push:
            return self._segment_bytes
        if type(request) is not Push:
            return 0.0
        mode = self.scenario.spec.mode
        pushed = hosts.push_bytes * (1 if mode.adds else request.batches) if mode.has_ranges or not mode.adds else 0.0
        return (pushed + (hosts.settle_bytes if request.settles else 0.0)) / hosts.count
