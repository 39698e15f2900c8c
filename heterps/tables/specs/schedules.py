"""Learning rates that change with the number of applied steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from heterps.errors import TableError
from heterps.fields import Count, Found, Natural, NotNegative, Positive, check_fields
from heterps.tables.specs.registry import Registry

__all__ = [
    "SCHEDULES",
    "Cosine",
    "Exponential",
    "Rate",
    "Scaled",
    "Schedule",
    "Steps",
    "Warmup",
    "rate_at",
    "rate_to_json",
    "scaled",
]


@dataclass(frozen=True)
class Schedule:
    """A learning rate as a function of the number of batch keys a shard has applied."""

    def __call__(self, step: int) -> float:
        """Return the rate for the step with this number (from 0)."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        check_fields(self, TableError, f"schedule {type(self).__name__}")

    @classmethod
    def from_found(cls, found: Found) -> Schedule:
        """Read a schedule where a document has one."""
        return SCHEDULES.from_json(found)

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as plain data."""
        return SCHEDULES.to_json(self)


SCHEDULES: Registry[Schedule] = Registry("schedule")


@SCHEDULES.add
@dataclass(frozen=True)
class Warmup(Schedule):
    """Rise linearly to ``lr`` over ``steps`` steps, then stay."""

    lr: NotNegative
    steps: Count

    def __call__(self, step: int) -> float:
        """Return the rate at a step."""
        return self.lr * min(1.0, (step + 1) / self.steps)


@SCHEDULES.add
@dataclass(frozen=True)
class Cosine(Schedule):
    """Rise linearly to ``lr`` over ``warmup`` steps, then fall along half a cosine to ``least`` at ``steps``; stay."""

    lr: NotNegative
    steps: Count
    least: NotNegative = 0.0
    warmup: Natural = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup >= self.steps:
            raise TableError(f"Cosine has warmup={self.warmup} of steps={self.steps}: none is left to fall in")

    def __call__(self, step: int) -> float:
        """Return the rate at a step."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.least + (self.lr - self.least) * (1 + math.cos(math.pi * done)) / 2


@SCHEDULES.add
@dataclass(frozen=True)
class Exponential(Schedule):
    """``lr * decay ** (step / every)``."""

    lr: NotNegative
    decay: Positive
    every: Count = 1

    def __call__(self, step: int) -> float:
        """Return the rate at a step."""
        return float(self.lr * self.decay ** (step / self.every))


@SCHEDULES.add
@dataclass(frozen=True)
class Steps(Schedule):
    """``rates[i]`` from step ``starts[i]`` on; ``starts`` ascends from 0."""

    starts: tuple[Natural, ...]
    rates: tuple[NotNegative, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.starts or self.starts[0] != 0 or list(self.starts) != sorted(set(self.starts)):
            raise TableError(f"Steps.starts must ascend from 0, got {self.starts}")
        if len(self.starts) != len(self.rates):
            raise TableError(f"Steps has {len(self.starts)} starts but {len(self.rates)} rates")

    def __call__(self, step: int) -> float:
        """Return the rate at a step."""
        return [rate for start, rate in zip(self.starts, self.rates, strict=True) if start <= step][-1]


@dataclass(frozen=True)
class Scaled(Schedule):
    """A schedule times a factor: what a rule follows while its rates are reduced. No document has one."""

    of: Schedule
    factor: NotNegative

    def __call__(self, step: int) -> float:
        """Return the rate at a step."""
        return self.of(step) * self.factor


Rate = NotNegative | Schedule


def scaled(rate: Rate, factor: float) -> Rate:
    """Return a rate times a factor."""
    return Scaled(rate, factor) if isinstance(rate, Schedule) else float(rate) * factor


def rate_at(rate: Rate, step: int) -> float:
    """Return the learning rate of a number or a schedule at a step."""
    return rate(step) if isinstance(rate, Schedule) else float(rate)


def rate_to_json(rate: Rate) -> Any:
    """Return a rate as plain data."""
    return rate.to_json() if isinstance(rate, Schedule) else rate
