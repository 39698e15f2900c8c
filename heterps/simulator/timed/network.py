"""A network that loses nothing: messages take what their bytes take on the wires between two workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heterps.simulator.network import Network, Process
from heterps.simulator.scenario import Scenario
from heterps.simulator.timed.cores import Cores, Thread
from heterps.simulator.timed.durations import Durations
from heterps.simulator.timed.wires import Place, Wires

__all__ = ["TimedNetwork"]

_NEVER_S = 1e6
_LATE_S = 1e5  # after which a run that ends in timeouts was too long, not stuck


class TimedNetwork(Network):
    """The agenda of a timed run, its wires and cores.

    ``size`` says how many bytes a message has.
    """

    timeout = _NEVER_S

    def __init__(self, scenario: Scenario, durations: Durations, size: Callable[[str, tuple[Any, ...]], float]) -> None:
        super().__init__(scenario)
        self.durations = durations
        self.current: Process | None = None  # on which something happens now
        self.wires = Wires(durations.links, durations.message_s)
        self.machines = {name: Cores(self, count) for name, count in durations.machines.items()}
        self._size = size
        task_s = durations.task_s  # of what goes through the scheduler
        self._until = {"_joined": durations.start_s, "_begin": task_s, "_create": task_s, "_stage_made": task_s}
        self._places: dict[Process, tuple[Place, Cores]] = {}

    def settle(self, process: Process, pool: str) -> None:
        """Say in which pool a process is."""
        of = self.durations.pools[pool]
        self._places[process] = (Place(pool, of), self.machines[of.machine] if of.machine else Cores(self, 1.0))

    def thread(self, process: Process, noted: Callable[..., object] | None = None) -> Thread:
        """Return a new thread of a process."""
        place, cores = self._places[process]
        return Thread(self, cores, process, noted, place.sends.cores if place.sends.machine else 1.0)

    def cores(self, process: Process) -> Cores:
        """Return the cores that a process works on."""
        return self._places[process][1]

    def send(self, process: Process | None, act: Callable[..., object], *args: Any, reliable: bool = False) -> None:
        """Send a message from where something happens now; the driver has a network of its own."""
        source, target, name = self._place(self.current), self._place(process), act.__name__
        size, until = self._size(name, args), self._until.get(name, 0.0)
        if source is None or target is None or source is target or size <= 0:
            self.at(self.durations.message_s + until, process, act, *args)
            return
        leaves = self.wires.leaves(self.now, source, size)
        self.at(leaves - self.now, None, self._pass, (source, target, size), until, process, act, args)

    def _pass(
        self,
        way: tuple[Place, Place, float],
        until: float,
        process: Process | None,
        act: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        """Let a message leave its sender."""
        self.at(self.wires.arrival(self.now, *way) - self.now + until, process, act, *args)

    def _place(self, process: Process | None) -> Place | None:
        found = None if process is None else self._places.get(process)
        return None if found is None else found[0]

    def step(self) -> bool:
        """Let the next thing happen; False if there is none, or nothing but a timeout."""
        if not self._agenda or self._agenda[0][0] >= _NEVER_S:
            return False
        self.current = self._agenda[0][2]
        return super().step()

    @property
    def is_late(self) -> bool:
        """Whether more time has passed than is played."""
        return self.now > _LATE_S

    def loading(self) -> float:
        """Seconds of a host that loads its part of a cut."""
        return self.durations.hosts.load_s

    def writing(self) -> float:
        """Seconds of a host that writes its part of a cut."""
        return self.durations.hosts.write_s

    def listing(self) -> float:
        """Seconds until the Splits are known."""
        return self.durations.task_s

    def publishing(self) -> float:
        """Seconds until a cut that all hosts wrote is published."""
        return self.durations.task_s
