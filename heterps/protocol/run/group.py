"""The all-reduce group as the run sees it: who is in it, who is foremost, whether the hosts have what it holds."""

from __future__ import annotations

from collections.abc import Iterable

from heterps.protocol.words.group import CatchUp, FormGroup, Position, WriteBack
from heterps.protocol.words.instructions import Instruction
from heterps.protocol.words.layout import Layout

__all__ = ["ReduceGroup"]


class ReduceGroup:
    """All members. Terms only rise: whenever members come or go the group forms anew.

    1. Every member takes note of the term and says how far it is.
    2. Those behind take everything from the foremost; if nobody has anything, all take it from the shard hosts.
    3. When all are ready, lanes are told.
    """

    def __init__(self, life: int) -> None:
        self.term = self._base = self._serial = life << 32
        self.members: tuple[str, ...] = ()
        self.owed = False  # something was trained that the shard hosts have not got
        self._answered = 0  # the last term under which all were ready: lanes were told no later one
        self._formed: dict[str, tuple[int, Position] | None] = {}  # term under which it served last, steps applied
        self._ready: set[str] = set()
        self._writing: tuple[int, int] | None = None  # serial, version of the layout

    @property
    def ready(self) -> bool:
        """Every member answers."""
        return bool(self.members) and len(self._ready) == len(self.members)

    def lose(self, worker: str) -> None:
        """A worker is gone; the group has to form anew without it."""
        if worker in self.members:
            self.dissolve()

    def dissolve(self) -> None:
        """Form anew, whoever is there."""
        self.members, self._formed, self._ready, self._writing = (), {}, set(), None

    def reset(self) -> None:
        """Everything returns to a cut: what members hold is of no use."""
        self.dissolve()
        self._base += 1
        self.owed = False

    def form(self, workers: Iterable[str]) -> list[Instruction]:
        """Form anew if these are not the members."""
        wanted = tuple(sorted(workers))
        if wanted == self.members:
            return []
        self.dissolve()
        self.term += 1
        self.members = wanted
        return [FormGroup(worker, self.term, self._base, wanted) for worker in wanted]

    def formed(self, worker: str, term: int, applied: Position | None, served: int) -> bool:
        """Note how far a member is; True if that was the last one to say so.

        One that was away while others were ready without it has nothing: lanes may have got what it does not know.
        """
        if term != self.term or worker not in self.members or worker in self._formed:
            return False
        if applied is None or served < self._answered:
            self._formed[worker] = None
        else:
            self._formed[worker] = served, (applied[0], applied[1])
        return len(self._formed) == len(self.members)

    @property
    def lost(self) -> bool:
        """Say whether nobody is left who has what was trained since the hosts got it last."""
        return self.owed and all(stand is None for stand in self._formed.values())

    def catch_up(self, pass_: int, layout: Layout) -> list[Instruction]:
        """All have formed: let those behind take everything from the foremost."""
        foremost = max((stand for stand in self._formed.values() if stand is not None), default=None)
        source = next((worker for worker in self.members if foremost and self._formed[worker] == foremost), "")
        return [
            CatchUp(worker, self.term, worker if foremost and stand == foremost else source, pass_, layout)
            for worker, stand in self._formed.items()
        ]

    def member_ready(self, worker: str, term: int) -> bool:
        """Note that a member answers; True if that was the last one."""
        if term != self.term or worker not in self._formed or worker in self._ready:
            return False
        self._ready.add(worker)
        self._answered = self.term if self.ready else self._answered
        return self.ready

    def write_back(self, layout: Layout) -> list[Instruction]:
        """Let a member give the parameters to the hosts, unless one is doing so under this layout."""
        if self._writing is not None and self._writing[1] == layout.version:
            return []
        self._serial += 1
        self._writing = (self._serial, layout.version)
        return [WriteBack(self.members[0], self.term, self._serial, layout)]

    def written_back(self, term: int, serial: int) -> bool:
        """Note that the hosts have the parameters; False for what was said late."""
        if term != self.term or self._writing is None or self._writing[0] != serial:
            return False
        self._writing, self.owed = None, False
        return True
