"""Cores that threads share, and threads that do one thing after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from heterps.simulator.network import Process

__all__ = ["Cores", "Thread"]


class Agenda(Protocol):
    """What happens when."""

    now: float
    current: Process | None

    def at(self, delay: float, process: Process | None, act: Callable[..., object], *args: Any) -> None:
        """Let something happen after a delay."""


class Cores:
    """The cores of a machine: whoever works takes so many of them, or, where there are too few, that part of them.

    Everybody goes equally fast, so whoever has least left is done first. ``_done`` counts what one that worked all the
    time would have done; work that begins when it stands at d is over when it stands at d plus that work.
    """

    def __init__(self, agenda: Agenda, count: float) -> None:
        self.count = count
        self.busy_s = 0.0  # core seconds so far
        self._agenda = agenda
        self._done = self._since = 0.0
        self._order = self._version = 0
        self._taken = 0.0  # cores that all take who work
        self._working: list[tuple[float, int, float, Process, Callable[[], object]]] = []

    def work(self, seconds: float, process: Process, then: Callable[[], object], cores: float = 1.0) -> None:
        """Work so long for a process, on so many cores."""
        self._advance()
        self._order += 1
        self._taken += cores
        heappush(self._working, (self._done + seconds, self._order, cores, process, then))
        self._schedule()

    @property
    def _pace(self) -> float:
        return min(1.0, self.count / self._taken)

    def _advance(self) -> None:
        if self._working:
            passed = (self._agenda.now - self._since) * self._pace
            self._done += passed
            self.busy_s += passed * self._taken
        self._since = self._agenda.now

    def _schedule(self) -> None:
        self._version += 1
        if self._working:
            left = max(0.0, self._working[0][0] - self._done)
            self._agenda.at(left / self._pace, None, self._first_is_done, self._version)

    def _first_is_done(self, version: int) -> None:
        if version != self._version:  # others came or went meanwhile
            return
        self._advance()
        _, _, cores, process, then = heappop(self._working)
        self._taken = self._taken - cores if self._working else 0.0
        self._schedule()
        self._agenda.current = process
        then()


class _Item(NamedTuple):
    seconds: float
    act: Callable[..., object]
    args: tuple[Any, ...]
    note: Any
    gate: Callable[[Callable[[], object]], object] | None


class Thread:
    """Does one thing after another, on so many cores: first what it has set itself, then what others left, in order.

    ``noted(note, start, stop)`` is called for work that has a note.
    """

    def __init__(
        self,
        agenda: Agenda,
        cores: Cores,
        process: Process,
        noted: Callable[..., object] | None = None,
        takes: float = 1.0,
    ) -> None:
        self.busy_s = 0.0
        self._takes = takes
        self._agenda, self._cores, self._process, self._noted = agenda, cores, process, noted
        self._own: deque[_Item] = deque()
        self._left: deque[_Item] = deque()
        self._busy = False

    def do(
        self,
        seconds: float,
        act: Callable[..., object],
        *args: Any,
        own: bool = False,
        note: Any = None,
        gate: Callable[[Callable[[], object]], object] | None = None,
    ) -> None:
        """Work so long, then act; ``gate`` calls back when the work can begin, and the thread waits for that."""
        item = _Item(seconds * self._process.pace, act, args, note, gate)
        (self._own if own else self._left).append(item)
        self._next()

    def _next(self) -> None:
        if self._busy or not (self._own or self._left):
            return
        self._busy = True
        item = (self._own or self._left).popleft()
        if item.gate is None:
            self._begin(item)
        else:
            item.gate(lambda: self._begin(item))

    def _begin(self, item: _Item) -> None:
        started = self._agenda.now
        self._cores.work(item.seconds, self._process, lambda: self._finish(item, started), self._takes)

    def _finish(self, item: _Item, started: float) -> None:
        self.busy_s += item.seconds
        if item.note is not None and self._noted is not None:
            self._noted(item.note, started, self._agenda.now)
        item.act(*item.args)
        self._busy = False
        self._next()
