"""Which device a stage computes on: one rule for stages, for inference and for the profile's measuring."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from heterps.device import namespace
from heterps.device.found import FoundDevices
from heterps.errors import HardwareError, UnknownKindError

__all__ = ["AUTO", "CPU", "ChosenDevice", "DeviceWish", "StagePool", "choose_device"]

AUTO = "auto"
Kind = Literal["cpu", "gpu", "any"]
_GPU = re.compile(r"gpu(?::(\d+))?")


@dataclass(frozen=True)
class StagePool:
    """What the Plan says about the pool of a stage.

    Parameters
    ----------
    name
        As the cluster calls it.
    kind
        ``"gpu"`` wants a GPU; ``"cpu"`` stays on the CPU, because other pools of the Plan have the GPUs; ``"any"``
        takes the device that is asked for.
    emulate
        Whether its CPU may stand in for a GPU that cannot be used.
    """

    name: str = "cpu"
    kind: Kind = "any"
    emulate: bool = False


@dataclass(frozen=True)
class DeviceWish:
    """What a run asks for: a device by name, whether a CPU may stand in for a GPU, the pool of each stage."""

    wanted: str = AUTO
    emulate: bool = False
    pools: tuple[StagePool, ...] = ()

    def on(self, pools: Iterable[tuple[str, bool]]) -> DeviceWish:
        """Return the same wish for these pools of stages: name, and whether it is to have GPUs."""
        named = list(pools)
        other: Kind = "cpu" if any(gpu for _, gpu in named) else "any"
        made = (StagePool(name, "gpu" if gpu else other, self.emulate) for name, gpu in named)
        return DeviceWish(self.wanted, self.emulate, tuple(made))

    def pool(self, stage: int) -> StagePool:
        """Return the pool of a stage."""
        return self.pools[stage] if stage < len(self.pools) else StagePool(emulate=self.emulate)

    def together(self) -> DeviceWish:
        """Return the wish of a run that has all its stages in one place: a GPU if any of them wants one."""
        first = sorted(self.pools, key=lambda pool: pool.kind != "gpu")[:1]
        return DeviceWish(self.wanted, self.emulate, tuple(first))


@dataclass(frozen=True)
class ChosenDevice:
    """What a Program is made with, and what reports say about it.

    Parameters
    ----------
    name
        For people: a GPU's model, ``"CPU"``, or the name under which a device is registered.
    library
        Name of its array library (:func:`heterps.device.namespace`).
    number
        Of a GPU among those that the process sees.
    emulated
        Whether it stands in for a GPU: its times mean nothing for one.
    why
        Why this one.
    """

    name: str
    library: str
    number: int = 0
    emulated: bool = False
    why: str = ""

    @property
    def xp(self) -> Any:
        """The array library."""
        return namespace(self.library)

    @property
    def place(self) -> str:
        """Its name among what a process has."""
        return f"gpu:{self.number}" if self.library == "gpu" else self.library

    def current(self) -> AbstractContextManager[Any]:
        """Make it the device of the calling thread for a while."""
        return self.xp.cuda.Device(self.number) if self.library == "gpu" else nullcontext()

    def __str__(self) -> str:
        """What reports say."""
        return f"{self.name}, emulated ({self.why})" if self.emulated else self.name


CPU = ChosenDevice("CPU", "cpu")


def choose_device(wanted: str, found: FoundDevices, pool: StagePool) -> ChosenDevice:
    """Say what a stage computes on.

    Parameters
    ----------
    wanted
        ``"auto"``, ``"cpu"``, ``"gpu"``, ``"gpu:1"``, or the name of a registered device.
    found
        What the worker has.
    pool
        What the Plan says.

    Raises
    ------
    HardwareError
        If a GPU is wanted, none can be used, and nothing may stand in for it; says why.
    """
    if wanted == AUTO or pool.kind == "cpu":
        name, why = ("gpu", f"pool {pool.name!r} wants a GPU") if pool.kind == "gpu" else ("cpu", "")
    else:
        name, why = wanted, "asked for"
    gpu = _GPU.fullmatch(name)
    if gpu:
        return _gpu(int(gpu[1] or 0), why, found, pool)
    if name not in found.registered:
        known = ", ".join(("auto", "gpu:0", *found.registered))
        raise UnknownKindError(f"unknown device {name!r}; known: {known}")
    if name == "cpu":
        return ChosenDevice("CPU", "cpu", 0, True, why) if pool.kind == "gpu" else CPU
    return ChosenDevice(name, name, 0, name in found.stand_ins, why)


def _gpu(number: int, why: str, found: FoundDevices, pool: StagePool) -> ChosenDevice:
    if number < len(found.gpus):
        return ChosenDevice(found.gpus[number], "gpu", number, False, why)
    few = f"it sees {len(found.gpus)} GPUs, counted from 0, and number {number} was asked for"
    reason = found.why_no_gpu if not found.gpus else few
    if pool.emulate:
        return ChosenDevice("CPU", "cpu", 0, True, reason)
    raise HardwareError(
        f"pool {pool.name!r} is to compute on a GPU and cannot: {reason}. "
        "Mend that, or let NumPy stand in with emulate=True (--emulate), or ask for device='cpu' (--device cpu)"
    )
