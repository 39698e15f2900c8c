"""Time, processes and messages between them: seeded, deterministic, unreliable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from heterps.protocol.run.story import brief
from heterps.simulator.cached_rows import CacheRows
from heterps.simulator.own_rows import OwnRows
from heterps.simulator.scenario import Scenario

__all__ = ["TIMEOUT", "Network", "Process"]

TIMEOUT = 8.0
"""How long a caller waits for an answer. Messages usually take about 1."""

_LATE = 2.5 * TIMEOUT


class Process:
    """A worker process: it can die for good, or freeze and wake up with everything that arrived meanwhile."""

    __slots__ = ("alive", "frozen", "inbox", "lost", "name", "own_rows", "pace", "role", "stay")

    def __init__(self, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self.alive = True
        self.frozen = False
        self.pace = 1.0
        self.stay = 0
        """How often it came back after it was given up."""
        self.lost = False
        """The run was told that it is gone, whether that is true or not."""
        self.own_rows: list[OwnRows | CacheRows] = []
        """That its slots train on."""
        self.inbox: list[tuple[Callable[..., object], tuple[Any, ...]]] = []


class Network:
    """An agenda of what happens when, and the noise on the way."""

    timeout = TIMEOUT

    def __init__(self, scenario: Scenario) -> None:
        self.now = 0.0
        self.fired: Counter[str] = Counter()
        self.met: Counter[type] = Counter()  # events, instructions and decisions
        self.trace: list[str] | None = None
        self.random = Random(scenario.seed * 2 + 1).random
        self.steps = 0
        self._agenda: list[tuple[float, int, Process | None, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0
        self._quiet = scenario.quiet
        self._noise = (scenario.loss, scenario.loss + scenario.duplication)
        self._noisy = self._noise[1] + scenario.lateness

    def at(self, delay: float, process: Process | None, act: Callable[..., object], *args: Any) -> None:
        """Let something happen on a process (None: the driver's machine) after a delay."""
        self._order += 1
        heappush(self._agenda, (self.now + delay, self._order, process, act, args))

    def send(self, process: Process | None, act: Callable[..., object], *args: Any, reliable: bool = False) -> None:
        """Send a message. A reliable one may be late or come twice, but is not lost."""
        delay = 0.5 + self.random()
        if self._order < self._quiet:
            luck = self.random()
            if luck < self._noisy:
                delay = self._disturb(luck, delay, process, act, args, reliable)
                if delay < 0:
                    return
        self._order += 1
        heappush(self._agenda, (self.now + delay, self._order, process, act, args))

    def _disturb(
        self, luck: float, delay: float, process: Process | None, act: Callable[..., object], args: Any, reliable: bool
    ) -> float:
        """Return the new delay of a message, negative if it is lost; a duplicate is sent from here."""
        if luck < self._noise[0] and not reliable:
            self.fired["message lost"] += 1
            return -1.0
        if luck < self._noise[1]:
            self.fired["message duplicated"] += 1
            self.at(delay + _LATE * self.random(), process, act, *args)
            return delay
        self.fired["message late"] += 1
        return delay + _LATE * self.random()

    def step(self) -> bool:
        """Let the next thing happen; False if there is none."""
        if not self._agenda:
            return False
        self.now, _, process, act, args = heappop(self._agenda)
        self.steps += 1
        if process is None:
            act(*args)
        elif process.frozen:
            process.inbox.append((act, args))
        elif process.alive:
            if self.trace is not None:
                self.trace.append(f"{self.now:8.2f} {process.name:9s} {act.__name__} {_brief(args)}")
            act(*args)
        return True

    def loading(self) -> float:
        """Return how long a host takes to load its part of a cut."""
        return 1 + 2 * self.random()

    def writing(self) -> float:
        """Return how long a host takes to write its part of a cut."""
        return 2 + 6 * self.random()

    def listing(self) -> float:
        """Return how long it takes until the Splits are known."""
        return 1.0

    def publishing(self) -> float:
        """Return how long it takes to publish a cut that all hosts wrote."""
        return 1.0

    def thaw(self, process: Process) -> None:
        """Wake a process up: everything that arrived meanwhile is handled now."""
        process.frozen = False
        inbox, process.inbox = process.inbox, []
        for act, args in inbox:
            self.at(0.01 * self.random(), process, act, *args)


def _brief(args: tuple[Any, ...]) -> str:
    """Show messages and instructions; tags, arrays and objects of the world say nothing to a reader."""
    return ", ".join(brief(arg) for arg in args if hasattr(arg, "_fields") or hasattr(arg, "__dataclass_fields__"))
