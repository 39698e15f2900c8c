"""Streams that take their time: a stand-in for ``cupy.cuda`` that keeps time, defers work and finds races.

- *Time*: work on a stream starts when the stream and everything it waits for are done; the host goes on at once.
- *Order*: work really happens later, in an order drawn from a seed among those that streams and events allow, so that
  a missing wait shows in the numbers.
- *Races*: vector clocks tell which accesses of a piece of memory are ordered; two that are not, one of them a write,
  are reported whatever the order drawn.

Device memory comes from a pool per stream, as CuPy's does: the former owner's work may still be queued there.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Clock = dict[int, int]
HOST = 0


class RaceError(AssertionError):
    """Two accesses that nothing orders."""


@dataclass
class Memory:
    """One allocation and who touched it: (actor, its time, whether it wrote)."""

    name: str
    touched: list[tuple[int, int, bool]] = field(default_factory=list)

    def touch(self, actor: int, clock: Clock, write: bool) -> None:
        for other, time, wrote in self.touched:
            if (write or wrote) and other != actor and clock.get(other, 0) < time:
                raise RaceError(f"{self.name}: actor {actor} is not ordered after actor {other}")
        self.touched.append((actor, clock.get(actor, 0), write))


def merge(into: Clock, other: Clock) -> None:
    for actor, time in other.items():
        into[actor] = max(into.get(actor, 0), time)


class Stream:
    def __init__(self, machine: Machine) -> None:
        self.machine, self.number = machine, len(machine.streams) + 1
        self.clock: Clock = {}
        self.end = 0.0
        self.queue: deque[tuple[str, Any]] = deque()
        machine.streams.append(self)

    def __enter__(self) -> Stream:
        self.machine.current.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.machine.current.pop()

    def run(
        self, work: Callable[[], None], reads: Iterable[Memory] = (), writes: Iterable[Memory] = (), took: float = 0.0
    ) -> None:
        """Queue work."""
        machine = self.machine
        merge(self.clock, machine.clock)
        self.clock[self.number] = self.clock.get(self.number, 0) + 1
        for memory in reads:
            memory.touch(self.number, self.clock, write=False)
        for memory in writes:
            memory.touch(self.number, self.clock, write=True)
        self.end = max(self.end, machine.now) + took
        self.queue.append(("run", work))
        machine.go_on()

    def wait_event(self, event: Event) -> None:
        merge(self.clock, event.clock)
        self.end = max(self.end, event.time)
        self.queue.append(("wait", event.token))
        self.machine.go_on()

    def synchronize(self) -> None:
        event = Event(self.machine)
        event.record(self)
        event.synchronize()


class Event:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.clock: Clock = {}
        self.time = 0.0
        self.token: list[bool] = [True]

    def record(self, stream: Stream) -> None:
        merge(stream.clock, self.machine.clock)
        self.clock, self.time, self.token = dict(stream.clock), max(stream.end, self.machine.now), [False]
        stream.queue.append(("record", self.token))
        self.machine.go_on()

    def synchronize(self) -> None:
        self.machine.syncs += 1
        merge(self.machine.clock, self.clock)
        self.machine.now = max(self.machine.now, self.time)
        while not self.token[0]:
            self.machine.step()


class Array:
    """Device memory; assignments and copies are queued, not done."""

    def __init__(self, machine: Machine, memory: Memory, data: np.ndarray[Any, Any]) -> None:
        self.machine, self.memory, self.data = machine, memory, data

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)
    size = property(lambda self: self.data.size)

    def __getitem__(self, key: slice) -> Array:
        return Array(self.machine, self.memory, self.data[key])

    def view(self, dtype: Any) -> Array:
        return Array(self.machine, self.memory, self.data.view(dtype))

    def reshape(self, shape: tuple[int, ...]) -> Array:
        return Array(self.machine, self.memory, self.data.reshape(shape))

    def __setitem__(self, key: Any, value: Array) -> None:
        assert key is Ellipsis
        self.machine.kernel(lambda: np.copyto(self.data, value.data), (value,), (self,), took=0.0)

    def set(self, host: np.ndarray[Any, Any], stream: Stream | None = None) -> None:
        stream, machine = stream or self.machine.current[-1], self.machine
        machine.copies += 1
        stream.run(lambda: np.copyto(self.data, host), (machine.pinned_at(host),), (self.memory,), machine.copy)

    def get(self, stream: Stream | None = None, out: Any = None, blocking: bool = True) -> None:
        stream, machine = stream or self.machine.current[-1], self.machine
        machine.copies += 1
        stream.run(lambda: np.copyto(out, self.data), (self.memory,), (machine.pinned_at(out),), machine.copy_down)
        if blocking:
            stream.synchronize()


class Machine:
    """A host and a device; stands for the array library, with ``cuda`` being itself.

    Parameters
    ----------
    seed
        Of the order in which queued work is done; None does it only when the host waits.
    copy, copy_down
        What one copy takes.
    """

    __name__ = "timed"

    def __init__(self, seed: int | None = None, copy: float = 1.0, copy_down: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.eager = seed is not None
        self.copy, self.copy_down = copy, copy_down
        self.streams: list[Stream] = []
        self.current = [Stream(self)]
        self.clock: Clock = {HOST: 0}
        self.now, self.syncs, self.copies = 0.0, 0, 0
        self.pinned: dict[int, tuple[int, Memory, bytearray]] = {}
        self.cuda = self

    # what CuPy has
    def Stream(self, non_blocking: bool) -> Stream:  # noqa: N802
        assert non_blocking, "a blocking stream waits for the default stream"
        return Stream(self)

    def Event(self, disable_timing: bool) -> Event:  # noqa: N802
        return Event(self)

    def get_current_stream(self) -> Stream:
        return self.current[-1]

    def alloc_pinned_memory(self, size: int) -> bytearray:
        memory = bytearray(b"\xff" * size)
        address = np.frombuffer(memory, np.uint8).ctypes.data if size else 0
        self.pinned[address] = (size, Memory(f"pinned {len(self.pinned)}"), memory)
        return memory

    def empty(self, size: int, dtype: Any) -> Array:
        data = np.zeros(size, dtype)
        array = Array(self, Memory(f"device {size}"), data)
        self.kernel(lambda: data.view(np.uint8).fill(255), (), (array,), took=0.0)  # the former owner's last work
        return array

    # what a test does
    def kernel(
        self, work: Callable[[], None], reads: Iterable[Array], writes: Iterable[Array], took: float = 1.0
    ) -> None:
        self.current[-1].run(work, [a.memory for a in reads], [a.memory for a in writes], took)

    def touch(self, array: np.ndarray[Any, Any], *, write: bool) -> None:
        """The host reads or writes pinned memory."""
        self.clock[HOST] += 1
        self.pinned_at(array).touch(HOST, self.clock, write)

    def pinned_at(self, array: np.ndarray[Any, Any]) -> Memory:
        address = array.ctypes.data
        for start, (size, memory, _) in self.pinned.items():
            if start <= address < start + size:
                return memory
        raise AssertionError("a copy from pageable memory makes the host wait")

    # what the device does
    def go_on(self) -> None:
        for _ in range(self.random.randrange(4) if self.eager else 0):
            if not self.step():
                break

    def step(self) -> bool:
        """Do one piece of queued work that nothing holds back."""
        ready = [s for s in self.streams if s.queue and (s.queue[0][0] != "wait" or s.queue[0][1][0])]
        if not ready:
            return False
        kind, what = self.random.choice(ready).queue.popleft()
        if kind == "run":
            what()
        elif kind == "record":
            what[0] = True
        return True
