"""What a stream has done, as a value: it is saved in the manifest of each checkpoint, so it cannot differ from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from heterps.errors import CheckpointError
from heterps.streaming.portion import Portion, day_order

__all__ = ["Cadence", "Ledger", "Owed", "Published"]

FORMAT = "heterps-stream/1"
_MOST_CHANGES = 7
_KEPT_BASES = 2  # as many as session.save keeps

#: Things to do before the next portion is looked at, in their order.
Owed = str
SHRINK: Final = "shrink"
BASE: Final = "base"
DELTA: Final = "delta"
KEEP: Final = "checkpoint"


@dataclass(frozen=True)
class Cadence:
    """How often what is done.

    Parameters
    ----------
    checkpoint_every
        Passes from one checkpoint to the next.
    delta_every
        Passes from one delta to the next; None for none. A checkpoint comes with each.
    end_days
        At a day's end shrink the tables and save a base, with a checkpoint.
    late
        What becomes of passes of a day that has ended: ``"train"`` or ``"skip"``.
    """

    checkpoint_every: int = 1
    delta_every: int | None = None
    end_days: bool = True
    late: str = "train"


@dataclass(frozen=True)
class Published:
    """A delta or base that was saved: the number of its folder, and the last pass that is in it."""

    kind: str
    folder: str
    sequence: int
    day: str
    name: str


@dataclass(frozen=True)
class Ledger:
    """Where a stream stands.

    Parameters
    ----------
    sequence
        Portions taken so far, those that were passed over too.
    position, last
        Of the source, behind the last of them; day and name of that.
    day, ended
        The day that is open, and the last that has ended; None for none.
    since_checkpoint, since_delta
        Portions since.
    changes
        Checkpoints since the last that held everything: the others hold what changed.
    rows
        Trained on.
    totals
        The file with the metrics over all of them; None before there are any.
    owed
        What is to be done before the next portion.
    outputs
        Deltas and bases that can be used, oldest first.
    ringing
        Alarms whose condition held in the last pass that was measured.
    """

    sequence: int = 0
    position: Any = None
    last: tuple[str, str] = ("", "")
    day: str | None = None
    ended: str | None = None
    since_checkpoint: int = 0
    since_delta: int = 0
    changes: int = 0
    rows: int = 0
    totals: str | None = None
    owed: tuple[Owed, ...] = ()
    outputs: tuple[Published, ...] = ()
    ringing: tuple[str, ...] = ()

    def is_late(self, portion: Portion) -> bool:
        """Whether a portion belongs to a day that has ended, or lies before the open one."""
        last = self.ended if self.day is None else self.day
        if last is None:
            return False
        order, ours = day_order(portion.day), day_order(last)
        return order < ours or (self.day is None and order == ours)

    def taken(self, portion: Portion, cadence: Cadence, rows: int = 0) -> Ledger:
        """Return the ledger after a portion was trained on, or passed over."""
        late = self.is_late(portion)
        after = replace(
            self,
            sequence=self.sequence + 1,
            position=portion.position,
            last=(portion.day, portion.name),
            day=self.day if late else portion.day,
            since_checkpoint=self.since_checkpoint + 1,
            since_delta=self.since_delta + 1,
            rows=self.rows + rows,
        )
        if portion.closes and not late:
            return after.day_over(cadence)
        if cadence.delta_every and after.since_delta >= cadence.delta_every:
            return replace(after, owed=(DELTA, KEEP))
        return replace(after, owed=(KEEP,) if after.since_checkpoint >= cadence.checkpoint_every else ())

    def day_over(self, cadence: Cadence) -> Ledger:
        """Return the ledger with the open day ended, and what that entails owed."""
        owed = (SHRINK, BASE, KEEP) if cadence.end_days else self.owed
        return replace(self, day=None, ended=self.day, owed=owed)

    def done(self, owed: Owed) -> Ledger:
        """Return the ledger with something done that was owed, or that nobody had asked for yet."""
        return replace(self, owed=self.owed[1:] if self.owed[:1] == (owed,) else self.owed)

    def published(self, kind: str, folder: str) -> Ledger:
        """Return the ledger after a delta or base; what lies before the bases that are kept is forgotten."""
        outputs = (*self.outputs, Published(kind, folder, self.sequence, *self.last))
        bases = [i for i, each in enumerate(outputs) if each.kind == BASE][-_KEPT_BASES:]
        first = bases[0] if len(bases) == _KEPT_BASES else 0
        return replace(self, outputs=outputs[first:], since_delta=0)

    @property
    def is_whole_due(self) -> bool:
        """Whether the next checkpoint is to hold everything: at a day's end, and lest a chain of changes grows long."""
        ended = bool(self.outputs) and self.outputs[-1].kind == BASE and self.outputs[-1].sequence == self.sequence
        return ended or self.changes >= _MOST_CHANGES

    def kept(self) -> Ledger:
        """Return the ledger as a checkpoint holds it."""
        return replace(self, since_checkpoint=0, changes=0 if self.is_whole_due else self.changes + 1)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able description."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Ledger:
        """Inverse of :meth:`to_json`."""
        if value is None or value.get("format") != FORMAT:
            raise CheckpointError("its checkpoint says nothing of a stream: it was trained otherwise; name another "
                                  "folder, and start from this model with start=")  # fmt: skip
        known = {each.name for each in fields(cls)}
        if {*value} != {"format", *known}:
            raise CheckpointError(f"a stream's checkpoint has {sorted({*value} ^ {'format', *known})} too few or many")
        try:
            outputs = tuple(Published(**each) for each in value["outputs"])
        except TypeError as error:
            raise CheckpointError(
                f"a stream's checkpoint says nothing sensible of what was published: {error}"
            ) from None
        plain = {name: value[name] for name in known - {"last", "owed", "outputs", "ringing"}}
        lists: dict[str, Any] = {name: tuple(value[name]) for name in ("last", "owed", "ringing")}
        return cls(**plain, **lists, outputs=outputs)
