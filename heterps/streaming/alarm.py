"""Alarms: a condition on what was measured of a pass, and a command that is run when it begins to hold."""

from __future__ import annotations

import logging
import operator
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heterps.errors import DataError
from heterps.streaming.measures import Measure

__all__ = ["Alarm", "Rung", "ring"]

_LOG = logging.getLogger("heterps")
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_TEXT = re.compile(r"\s*(total\s+)?([\w:.-]+)(?:\[([^\]]+)\])?\s*(<=|>=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True)
class Alarm:
    """A condition such as ``auc<0.70``, ``total copc>1.2`` or ``slot_auc[city]<0.6``.

    One that is not defined for a pass (no rows, one class) neither holds nor ends.
    """

    text: str
    measure: Measure
    of_total: bool
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Alarm:
        """Read a condition."""
        found = _TEXT.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            total, name, group, sign, bound = found.groups()
            return cls(" ".join(text.split()), (name, group or ""), bool(total), sign, float(bound))
        except ValueError:
            raise DataError(
                f"{text!r} is no alarm: write it as auc<0.70, total copc>1.2 or slot_auc[city]<0.6"
            ) from None

    def value(self, values: Mapping[Measure, float], totals: Mapping[Measure, float]) -> float | None:
        """Return what is compared; None where it is not defined."""
        found = (totals if self.of_total else values).get(self.measure)
        return None if found is None or found != found else found

    def holds(self, value: float) -> bool:
        """Whether there is reason for alarm."""
        return _SIGNS[self.sign](value, self.bound)


@dataclass(frozen=True)
class Rung:
    """An alarm that began to hold, and the value that did it."""

    alarm: Alarm
    value: float

    def __str__(self) -> str:
        return f"{self.alarm.text} ({self.value:.4g})"


def begun(
    alarms: Sequence[Alarm],
    before: Sequence[str],
    values: Mapping[Measure, float],
    totals: Mapping[Measure, float],
) -> tuple[tuple[Rung, ...], tuple[str, ...]]:
    """Return the alarms that begin to hold, and the texts of all that hold now; ``before`` held in the last pass."""
    rung, ringing = [], []
    for alarm in alarms:
        value = alarm.value(values, totals)
        if value is None:
            ringing += [alarm.text] if alarm.text in before else []
        elif alarm.holds(value):
            ringing.append(alarm.text)
            rung += [] if alarm.text in before else [Rung(alarm, value)]
    return tuple(rung), tuple(ringing)


def ring(command: Sequence[str], rung: Rung, day: str, name: str, sequence: int, timeout_s: float = 60.0) -> None:
    """Run a command for an alarm; what it is about stands in its environment. One that fails is told, no more."""
    about = {
        "HETERPS_ALARM": rung.alarm.text,
        "HETERPS_VALUE": repr(rung.value),
        "HETERPS_DAY": day,
        "HETERPS_PASS": name,
        "HETERPS_SEQUENCE": str(sequence),
    }
    try:
        done = subprocess.run(
            list(command),
            env=os.environ | about,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.warning("the command for the alarm %s could not be run: %s", rung, error)
        return
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()[-500:]
        _LOG.warning("the command for the alarm %s ended with %d: %s", rung, done.returncode, text)
