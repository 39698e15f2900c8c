"""How lanes and hosts keep in step: Sync, Async, Geo, Cached, Mixed and MixedSync as frozen values.

Each mode answers the questions that the rest of the protocol asks: how many batches make one push (``unit``), how
many units a Split may have in flight (``depth``), between which batches an attempt may begin and stop (``span``),
whether steps are ordered over lanes (``ordered``), whether workers keep rows of their own (``has_copy``), and whether
they change them themselves (``adds``). Unit boundaries go by batch number, never by time, so that every attempt at a
Split makes the same units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from heterps.errors import PlanError, UnknownKindError
from heterps.fields import Count, Found, Natural, check_fields, shown

__all__ = ["Async", "Cached", "Geo", "Mixed", "MixedSync", "Mode", "Sync", "mode_from_json", "mode_from_text"]


_AHEAD = 4  # batches whose rows are asked for while one before them is computed


@dataclass(frozen=True, slots=True)
class Mode:
    """What the modes have in common."""

    name: ClassVar[str]
    ordered: ClassVar[bool] = False
    """Steps are ordered over lanes: hosts stage gradients and commit step by step."""
    has_copy: ClassVar[bool] = False
    """Workers keep rows of their own: a few batches are pulled ahead, and computed in the order of their numbers."""
    adds: ClassVar[bool] = False
    """Workers change their rows themselves: each batch is computed on what the ones before it left; a push is what has
    changed in its unit, and its answer brings what others changed.
    """

    def __post_init__(self) -> None:
        check_fields(self, PlanError, f"{self.name} mode")

    @property
    def unit(self) -> int:
        """Batches per push."""
        return 1

    @property
    def span(self) -> int:
        """Batches after which nothing is owed: an attempt begins and stops where a range of so many does."""
        return self.unit

    @property
    def has_ranges(self) -> bool:
        """Whether something is owed for several units together."""
        return self.span > self.unit

    def range_start(self, n: int, base: int = 0) -> int:
        """Return the first batch of the range that batch ``n`` of a Split is in; none begins before its Split.

        ``base`` is the step of the Split's first batch where steps are ordered: ranges of all lanes then end at the
        same steps, so that there are some at which all of them can stop.
        """
        return max(0, n - (base + n) % self.span)

    def range_end(self, n: int, base: int = 0) -> int:
        """Return where the range ends that batch ``n`` is in, if the Split goes on for so long."""
        return n + self.span - (base + n) % self.span

    @property
    def in_flight(self) -> int:
        """Units a Split may have between its first pull and its last acknowledgement."""
        return 1

    @property
    def any_order(self) -> bool:
        """Whether batches of a Split need not take turns: a pull may overtake a push on its way to the same host.

        Not in Sync. Not where workers keep rows: which pushes are in the rows that come, and what changed since, is
        told by answers that come in the order of what was asked.
        """
        return not (self.ordered or self.has_copy)

    @property
    def held(self) -> int:
        """Batches that an attempt may hold at once."""
        return self.told_at_once

    @property
    def told_at_once(self) -> int:
        """Batches of which an attempt may say nothing until all of them are done."""
        return self.in_flight * self.unit

    @property
    def owed(self) -> int:
        """Batches that an attempt that is told to stop may have to do first: those in flight, and to a range's end."""
        return self.told_at_once + self.span - self.unit

    @property
    def dense_every(self) -> int:
        """Batches for which dense parameters are asked for once, where workers keep no rows."""
        return 1

    def at_depth(self, depth: int) -> Mode:
        """The mode of a worker that has so many batches in flight; itself where that is no choice."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the mode as a JSON object that :func:`mode_from_json` reads."""
        return {"mode": self.name, **asdict(self)}

    @classmethod
    def from_found(cls, found: Found) -> Mode:
        """Read a mode where a document has one."""
        return mode_from_json(found)


@dataclass(frozen=True, slots=True)
class Sync(Mode):
    """A step is one batch of every lane; its gradient is their sum in lane order. Bitwise repeatable."""

    name: ClassVar[str] = "sync"
    ordered: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Async(Mode):
    """No barrier: each push is applied as it arrives.

    Parameters
    ----------
    depth
        Units in flight per Split; bounds staleness. One is enough where hosts answer at once, and then it is one.
    merge
        Batches whose gradients are summed before one push, and for which dense parameters are asked for once.
    """

    depth: Count = 2
    merge: Count = 1
    name: ClassVar[str] = "async"

    @property
    def unit(self) -> int:
        """Batches per push."""
        return self.merge

    @property
    def in_flight(self) -> int:
        """Units in flight."""
        return self.depth

    @property
    def dense_every(self) -> int:
        """Batches of a push."""
        return self.merge

    def at_depth(self, depth: int) -> Async:
        """The mode of a worker that has so many batches in flight."""
        return replace(self, depth=depth)


@dataclass(frozen=True, slots=True)
class Geo(Mode):
    """Train on rows of one's own; every k batches send the change divided by the Plan's lanes and take that of others.

    The exchange of one range of batches goes on while the next one is computed.

    Parameters
    ----------
    k
        Batches per delta. The range of batch numbers is its key.
    """

    k: Count = 100
    name: ClassVar[str] = "geo"
    has_copy: ClassVar[bool] = True
    adds: ClassVar[bool] = True

    @property
    def unit(self) -> int:
        """Batches per delta."""
        return self.k

    @property
    def in_flight(self) -> int:
        """Units in flight: one that is computed, and one that is exchanged meanwhile."""
        return 2

    @property
    def held(self) -> int:
        """Batches that are read, with their rows asked for, before their turn comes."""
        return min(_AHEAD, 2 * self.k)


@dataclass(frozen=True, slots=True)
class Cached(Mode):
    """Keep rows that are met often; gather their gradients and settle them after some batches.

    Hosts apply the rules, to the sum of a unit's gradients. A unit is settled while the next one is computed, so a
    batch may lack its own unit and the one before.

    Parameters
    ----------
    staleness
        A batch is computed from rows that lack at most so many batches before it, of its own worker, and whatever
        others pushed in that time. 0: none, each batch waits for the one before it.
    """

    staleness: Natural = 16
    name: ClassVar[str] = "cache"
    has_copy: ClassVar[bool] = True

    @property
    def unit(self) -> int:
        """Batches whose gradients are gathered: two units less one batch may be lacking."""
        return max(1, (self.staleness + 1) // 2)

    @property
    def in_flight(self) -> int:
        """Units in flight: one that is computed, and one that is settled meanwhile."""
        return 2 if self.staleness else 1

    @property
    def held(self) -> int:
        """Batches that are read, with their rows asked for, before their turn comes."""
        return min(_AHEAD, self.told_at_once)


@dataclass(frozen=True, slots=True)
class Mixed(Mode):
    """Some tables as in Geo, everything else as in Async: ``parameters={"user_*": "geo:100"}``.

    Each batch is pushed by itself; with the last one of a range of k come the changes of the whole range to the rows
    that workers train themselves. An attempt that takes over a range begins with its first batch: hosts drop what they
    have, and what was learned of the range is learned again.

    Parameters
    ----------
    k
        Batches per range.
    depth
        Batches in flight; at least two, as a push waits until it is known whether another batch follows.
    """

    k: Count = 100
    depth: Count = 2
    name: ClassVar[str] = "mixed"
    has_copy: ClassVar[bool] = True
    adds: ClassVar[bool] = True

    @property
    def span(self) -> int:
        """Batches per range."""
        return self.k

    @property
    def in_flight(self) -> int:
        """Batches in flight."""
        return max(2, self.depth)

    def at_depth(self, depth: int) -> Mixed:
        """The mode of a worker that has so many batches in flight."""
        return replace(self, depth=depth)


@dataclass(frozen=True, slots=True)
class MixedSync(Mode):
    """Some tables as in Geo, everything else step by step as in Sync: beside what is all-reduced, for example.

    As in :class:`Mixed` the changes of a range go with its last batch; hosts add them up in lane order when they commit
    its step, and the next batch's rows bring what others changed. So without faults the bits are the same for any
    number of workers. Ranges go by the steps of a pass, and none goes over the end of a Split.

    Parameters
    ----------
    k
        Steps per range.
    """

    k: Count = 100
    name: ClassVar[str] = "mixed-sync"
    ordered: ClassVar[bool] = True
    has_copy: ClassVar[bool] = True
    adds: ClassVar[bool] = True

    @property
    def span(self) -> int:
        """Steps per range."""
        return self.k

    @property
    def held(self) -> int:
        """One that is computed, and one that is read to know whether the range goes on."""
        return 2


_MODES: dict[str, type[Mode]] = {kind.name: kind for kind in (Sync, Async, Geo, Cached, Mixed, MixedSync)}
_SAID = sorted(_MODES.keys() - {Mixed.name, MixedSync.name})  # these follow from how parameters travel


def mode_from_json(value: Mapping[str, Any] | Found) -> Mode:
    """Inverse of :meth:`Mode.to_json`."""
    found = Found.of(value, PlanError, "")
    name = found["mode"]
    if name.read(str) not in _MODES:
        raise UnknownKindError(f"{name.place} {shown(name.value)} is not known: use one of {', '.join(_SAID)}")
    return found.without("mode").make(_MODES[name.value])


def mode_from_text(text: str) -> Mode:
    """Read a mode's name, or one with its numbers: ``async:4`` (depth), ``async:2:8`` (and merge), ``geo:100`` (k)."""
    name, *given = text.split(":")
    if name not in _SAID:
        raise UnknownKindError(f"mode {shown(text)} is not known: use one of {', '.join(_SAID)}")
    numbers = [f.name for f in fields(_MODES[name])]
    if len(given) > len(numbers) or not all(map(str.isdecimal, given)):
        forms = " or ".join(f"{name}:{':'.join(numbers[:n]).upper()}" for n in range(1, len(numbers) + 1))
        raise PlanError(f"mode {shown(text)}: use {f'{forms} with whole numbers' if numbers else f'{name} alone'}")
    return _MODES[name](**dict(zip(numbers, map(int, given), strict=False)))
