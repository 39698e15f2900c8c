"""Where the time of a run went, by pool and phase."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heterps.runtime.batch.devices import CPU, ChosenDevice
from heterps.runtime.batch.exchange import Exchange
from heterps.runtime.batch.phases import PHASES, WAITING
from heterps.writing import write_whole

__all__ = ["PhaseProfile"]

Seconds = Mapping[str, float]


@dataclass(frozen=True)
class PhaseProfile:
    """Seconds of threads by pool and phase.

    Parameters
    ----------
    elapsed_s
        Seconds that training took.
    pools
        Seconds by phase (see :data:`~heterps.runtime.batch.phases.PHASES`) that threads of each pool spent.
    capacity_s
        Seconds that the threads of each pool had: what is not in ``pools`` they had nothing to do.
    devices
        What the programs of each pool compute on, as its workers say; none where nothing is computed.
    exchange
        What workers and shard hosts said to each other.

    Examples
    --------
    >>> profile = PhaseProfile(2.0, {"io": {"read": 1.0, "waiting": 0.5}}, {"io": 2.0})
    >>> profile.busy
    {'io': 0.5}
    """

    elapsed_s: float = 0.0
    pools: Mapping[str, Seconds] = field(default_factory=dict)
    capacity_s: Seconds = field(default_factory=dict)
    devices: Mapping[str, tuple[ChosenDevice, ...]] = field(default_factory=dict)
    exchange: Exchange = field(default_factory=Exchange)

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase over all pools, in the order in which a batch passes them."""
        return {phase: sum(seconds.get(phase, 0.0) for seconds in self.pools.values()) for phase in PHASES}

    @property
    def busy(self) -> dict[str, float]:
        """Share of its threads' time that each pool worked."""
        return {pool: min(1.0, self.working_s(pool) / (self.capacity_s.get(pool) or 1.0)) for pool in self.pools}

    @property
    def computing(self) -> list[str]:
        """A line for each pool that computes on anything but plain CPUs."""
        told = {pool: devices for pool, devices in self.devices.items() if devices != (CPU,)}
        return [f"{pool} computes on {' and '.join(map(str, devices))}" for pool, devices in told.items()]

    @property
    def caching(self) -> list[str]:
        """A line for each table that workers keep rows of."""
        return [f"cache of {table}: {use.told}" for table, use in self.exchange.caches.items()]

    @property
    def emulated(self) -> list[str]:
        """The pools in which something stands in for a GPU: their times mean nothing for one."""
        return [pool for pool, devices in self.devices.items() if any(device.emulated for device in devices)]

    def working_s(self, pool: str) -> float:
        """Return the seconds that a pool's threads did something other than wait."""
        return sum(seconds for phase, seconds in self.pools[pool].items() if phase != WAITING)

    def __add__(self, other: PhaseProfile) -> PhaseProfile:
        return self._joined(other, 1)

    def __sub__(self, other: PhaseProfile) -> PhaseProfile:
        return self._joined(other, -1)

    def _joined(self, other: PhaseProfile, sign: int) -> PhaseProfile:
        pools = dict.fromkeys((*self.pools, *other.pools))
        return PhaseProfile(
            self.elapsed_s + sign * other.elapsed_s,
            {pool: _joined(self.pools.get(pool, {}), other.pools.get(pool, {}), sign) for pool in pools},
            _joined(self.capacity_s, other.capacity_s, sign),
            {**other.devices, **self.devices},
            self.exchange + other.exchange if sign > 0 else self.exchange,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        pools = {pool: dict(seconds) for pool, seconds in self.pools.items()}
        devices = {pool: [str(device) for device in those] for pool, those in self.devices.items()}
        return {
            "elapsed_s": self.elapsed_s,
            "pools": pools,
            "capacity_s": dict(self.capacity_s),
            "devices": devices,
            "exchange": self.exchange.to_json(),
        }

    def draw(self, title: str = "") -> str:
        """Return the profile as a self-contained SVG."""
        from heterps.runtime.report.profile_drawing import draw

        return draw(self, title)

    def save(self, path: str | os.PathLike[str], title: str = "") -> Path:
        """Write the picture to a file."""
        return write_whole(path, self.draw(title))

    def _repr_svg_(self) -> str:
        return self.draw()

    def __str__(self) -> str:
        names = list(self.pools)
        rows = [["phase", *names]]
        rows += [[p, *(f"{self.pools[n].get(p, 0.0):.2f}" for n in names)] for p in PHASES if self.phases[p] > 0]
        rows.append(["busy", *(f"{100 * self.busy[n]:.0f} %" for n in names)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        )
        return "\n".join([*lines, *self.computing, *self.caching])


def _joined(a: Seconds, b: Seconds, sign: int) -> dict[str, float]:
    return {name: a.get(name, 0.0) + sign * b.get(name, 0.0) for name in dict.fromkeys((*a, *b))}
