"""A run with nothing going wrong, in thirty lines: also the shortest example of an engine."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from heterps.protocol import ClientState, HostState, RunSpec, RunState, SplitsReady, WorkerJoined
from heterps.protocol.client import state as cl
from heterps.protocol.words import decisions as de, events as ev, instructions as do


class Straight:
    """Everything happens at once and in order; ``applied`` lists what each copy was told to change."""

    def __init__(self, spec: RunSpec, batches: Mapping[int, int]) -> None:
        self.spec, self.batches = spec, batches
        self.run = RunState(spec)
        self.hosts: dict[int, HostState] = {}
        self.clients: dict[int, ClientState] = {}
        self.applied: dict[int, list[Any]] = {}
        self.done: list[do.Instruction] = []
        self.todo: deque[Any] = deque()

    def go(self, *events: ev.Event) -> None:
        self.todo.extend((self.run.handle, self.instruct, event) for event in events)
        while self.todo:
            source, sink, *args = self.todo.popleft()
            for result in source(*args):
                sink(result)
            self.run.validate()

    def instruct(self, instruction: Any) -> None:
        self.done.append(instruction)
        if isinstance(instruction, do.RunSplit):
            client = self.clients[instruction.attempt] = ClientState(instruction, self.spec.mode)
            self.todo.append((client.start, lambda a: self.act(client, a)))
        elif hasattr(instruction, "attempt"):
            client = self.clients[instruction.attempt]
            self.todo.append((client.handle, lambda a: self.act(client, a), instruction))
        elif hasattr(instruction, "copy"):
            if isinstance(instruction, do.CreateHost):
                self.hosts[instruction.copy] = HostState(instruction.copy, self.spec.mode, self.spec.lanes)
                self.applied[instruction.copy] = []
            self.tell(instruction.copy, instruction, None)
        elif isinstance(instruction, do.NeedSplits):
            self.todo.append((self.run.handle, self.instruct, SplitsReady(instruction.pass_, len(self.batches))))
        elif isinstance(instruction, do.PublishCut):
            self.todo.append((self.run.handle, self.instruct, ev.CutPublished(instruction.cut.number)))

    def tell(self, copy: int, message: Any, tag: Any) -> None:
        self.todo.append((self.hosts[copy].handle, lambda d: self.decide(copy, d), message, tag))

    def act(self, client: ClientState, action: Any) -> None:
        def feed(message: Any) -> None:
            self.todo.append((client.handle, lambda a: self.act(client, a), message))

        if isinstance(action, cl.Send):
            self.tell(client.layout.copies[action.host], action.request, (client, action))
        elif isinstance(action, cl.Read):
            count = self.batches[client.run.split]  # type: ignore[index]
            feed(cl.BatchRead(action.n) if action.n < count else cl.SplitEnded(count))
        elif isinstance(action, cl.Compute):
            feed(cl.Computed(action.key, action.stage))
        elif isinstance(action, cl.Tell):
            self.todo.append((self.run.handle, self.instruct, action.event))

    def decide(self, copy: int, decision: Any) -> None:
        if isinstance(decision, de.Answer | de.Serve):
            client, sent = decision.tag
            self.todo.append((client.reply, lambda a: self.act(client, a), sent.host, sent.request, decision.reply))
        elif isinstance(decision, de.Load):
            self.tell(copy, de.Loaded(decision.term, None), None)
        elif isinstance(decision, de.Apply):
            self.applied[copy].append(decision.push)
        elif isinstance(decision, de.Commit):
            self.applied[copy].append(decision)
        elif isinstance(decision, de.Report):
            self.todo.append((self.run.handle, self.instruct, decision.event))
        elif isinstance(decision, de.Mark):
            self.todo.append((self.run.handle, self.instruct, ev.CutWritten(copy, decision.cut)))


def straight(spec: RunSpec, batches: Mapping[int, int], workers: int = 1) -> Straight:
    """Run to the end and return the world."""
    world = Straight(spec, batches)
    world.go(ev.ServersJoined(tuple(f"server{i}" for i in range(spec.hosts))))
    world.go(*(WorkerJoined(f"io{i}", "io") for i in range(workers)))
    return world
