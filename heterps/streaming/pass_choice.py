"""Which pass comes next, of those that were found: a pure choice.

Passes are taken in their order. One that was taken is never offered again, whatever became of its files. One that is
still being written holds up those behind it. One that is expected but not there holds up those behind it until it is
given up; if it comes after all it is offered then, as a late one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heterps.errors import CheckpointError
from heterps.streaming.pattern import NamedPass
from heterps.streaming.portion import Nothing, Portion, day_order

__all__ = ["FoundPass", "PassChoice", "PassSchedule", "Past", "pick"]

_TAKEN, _MISSED = "taken", "missed"


@dataclass(frozen=True)
class FoundPass:
    """A pass of which something is there: its files with rows, whether it is complete, or still grows."""

    which: NamedPass
    files: tuple[str, ...]
    ready: bool
    is_growing: bool = False


@dataclass(frozen=True)
class PassSchedule:
    """What is expected, and how long a pass that does not come is waited for (None: for ever)."""

    days: tuple[str, ...] | None = None
    passes: tuple[str, ...] | None = None
    give_up_s: float | None = None


@dataclass(frozen=True)
class Past:
    """Passes of recent days that were taken, or given up; of days before nothing is offered any more."""

    days: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    before: str | None = None
    most: int = 7

    @classmethod
    def from_json(cls, value: Any, most: int) -> Past:
        """Read a source's position."""
        if value is None:
            return cls(most=most)
        try:
            return cls({day: dict(passes) for day, passes in value["days"].items()}, value["before"], most)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise CheckpointError(
                f"this is no position in folders: {value!r}; the stream read something else"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return the position of a source that has come so far."""
        return {"days": {day: dict(passes) for day, passes in self.days.items()}, "before": self.before}

    def may_come(self, which: NamedPass) -> bool:
        """Whether a pass was not taken yet, and is of a day that is remembered or still to come."""
        return self.state(which) != _TAKEN and not self._is_too_old(which.day)

    def state(self, which: NamedPass) -> str:
        """Return what became of a pass; nothing yet is ""."""
        return self.days.get(which.day, {}).get(which.name, "")

    def _is_too_old(self, day: str) -> bool:
        return self.before is not None and day not in self.days and day_order(day) < day_order(self.before)

    def with_pass(self, which: NamedPass, state: str) -> Past:
        """Return the past with one more."""
        days = {**self.days, which.day: {**self.days.get(which.day, {}), which.name: state}}
        kept = sorted(days, key=day_order)[-self.most :]
        before = kept[0] if len(kept) < len(days) else self.before
        return Past({day: days[day] for day in kept}, before, self.most)


class PassChoice(NamedTuple):
    """What a source answers, and which pass it waits for."""

    result: Portion | Nothing
    waits_for: NamedPass | None = None


def pick(
    found: Sequence[FoundPass], past: Past, schedule: PassSchedule, waited_s: Callable[[NamedPass], float]
) -> PassChoice:
    """Choose; ``found`` is in order, ``waited_s`` tells for how long a pass has been waited for."""
    there = {one.which: one for one in found}
    order = _order(found, past, schedule)
    ready = [n for n, which in enumerate(order) if which in there and there[which].ready]
    for n, which in enumerate(order):
        one = there.get(which)
        if one is not None and one.ready:
            return PassChoice(_portion(which, one.files, past, schedule))
        if one is not None and one.is_growing:
            return PassChoice(Nothing(f"pass {' '.join(which)} to stay as it is", expected=True), which)
        if past.state(which) == _MISSED or not (schedule.days is not None or any(later > n for later in ready)):
            continue
        if schedule.give_up_s is not None and waited_s(which) >= schedule.give_up_s:
            return PassChoice(_portion(which, (), past, schedule, missing=True))
        return PassChoice(Nothing(f"pass {' '.join(filter(None, which))}", expected=True), which)
    return PassChoice(Nothing("another pass", closes=schedule.days is not None))


def _order(found: Sequence[FoundPass], past: Past, schedule: PassSchedule) -> list[NamedPass]:
    """Return the passes that may come, in their order: those listed, or those found."""
    names: dict[str, list[str]] = {}
    for one in found:
        names.setdefault(one.which.day, []).append(one.which.name)
    days = schedule.days if schedule.days is not None else sorted({*names, *past.days}, key=day_order)
    if schedule.passes is None:
        some = [NamedPass(day, name) for day in days for name in names.get(day, () if past.days.get(day) else ("",))]
    else:
        some = [NamedPass(day, name) for day in days for name in schedule.passes]
    return [which for which in some if past.may_come(which)]


def _portion(
    which: NamedPass, files: tuple[str, ...], past: Past, schedule: PassSchedule, missing: bool = False
) -> Portion:
    after = past.with_pass(which, _MISSED if missing else _TAKEN)
    whole_day = missing and not which.name  # a day without a single pass
    listed = schedule.passes is not None and all(after.state(NamedPass(which.day, name)) for name in schedule.passes)
    return Portion(after.to_json(), which.day, which.name, files, missing=missing, closes=whole_day or listed)
