"""What to do about input that cannot be read, and the account of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from heterps.errors import DataError

__all__ = ["BadBook", "BadInput", "BadRow", "BadRows"]

SHOWN = 10


@dataclass(frozen=True)
class BadInput:
    """The policy: skip and count up to ``limit`` bad rows a Split, or stop at the first.

    Parameters
    ----------
    action
        ``"skip"`` or ``"error"``.
    limit
        More bad rows than this in one Split stop the read: a wrong delimiter should not train on nothing.
    """

    action: Literal["skip", "error"] = "skip"
    limit: int = 1000


@dataclass(frozen=True)
class BadRow:
    """One bad row: where it is, why it was skipped, and how it begins."""

    source: str
    line: int
    offset: int
    reason: str
    text: str
    before: int = -1
    """Good rows that the read gave before it; -1 where a reader does not say."""

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line > 0 else f"byte {self.offset}"
        return f"{self.source}, {where}: {self.reason}: {self.text!r}"


@dataclass
class BadRows:
    """How many rows were skipped, by reason, and the first ten; merges across Splits.

    With ``keeps`` every row is remembered, in the order they were met (``rows``): the policy's limit bounds them.
    """

    policy: BadInput = field(default_factory=BadInput)
    count: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    first: list[BadRow] = field(default_factory=list)
    keeps: bool = False
    rows: list[BadRow] = field(default_factory=list)

    def add(self, row: BadRow, reason: str = "") -> None:
        """Count a row; raise DataError when the policy says so."""
        self.count += 1
        kind = reason or row.reason
        self.reasons[kind] = self.reasons.get(kind, 0) + 1
        if len(self.first) < SHOWN:
            self.first.append(row)
        if self.keeps:
            self.rows.append(row)
        if self.policy.action == "error" or self.count > self.policy.limit:
            raise DataError(self.message())

    def absorb(self, other: BadRows) -> None:
        """Count what another read found; raise DataError when the policy says so."""
        both = self.merge(other)
        self.count, self.reasons, self.first, self.rows = both.count, both.reasons, both.first, both.rows
        if self.count and (self.policy.action == "error" or self.count > self.policy.limit):
            raise DataError(self.message())

    def merge(self, other: BadRows) -> BadRows:
        """Return the account of both."""
        reasons = dict(self.reasons)
        for reason, count in other.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
        first = sorted({*self.first, *other.first}, key=lambda row: (row.source, row.offset))[:SHOWN]
        rows = [*self.rows, *other.rows] if self.keeps else self.rows
        return BadRows(self.policy, self.count + other.count, reasons, first, self.keeps, rows)

    def moved(self, rows: int) -> BadRows:
        """Return the account as it is where so many more good rows come before."""
        there = [replace(row, before=row.before + rows) for row in self.rows]
        return replace(self, rows=there)

    def message(self) -> str:
        """Say what was found, with examples, and what can be done."""
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        shown = "".join(f"\n  {row}" for row in self.first)
        if self.policy.action == "error":
            advice = "Correct the input, or allow skipping with BadInput('skip', limit=...)."
        else:
            advice = (
                f"The limit is {self.policy.limit} a Split: check columns and delimiter, or raise BadInput(limit=...)."
            )
        return f"{self.count} bad rows ({why}):{shown}\n{advice}"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able account."""
        return {"count": self.count, "reasons": dict(self.reasons), "first": [str(row) for row in self.first]}


class BadBook:
    """The accounts of a run, one for each Split: reading a Split again does not count its bad rows again."""

    def __init__(self, policy: BadInput) -> None:
        self._policy = policy
        self._counts: dict[tuple[int, int], int] = {}  # by earlier reads of a Split
        self._open: dict[tuple[int, int], BadRows] = {}
        self._first = ""
        self._lock = threading.Lock()

    def open(self, pass_: int, split: int) -> BadRows:
        """Return a fresh account for a read of a Split, from its beginning or from later on."""
        with self._lock:
            self._close(pass_, split)
            account = self._open[pass_, split] = BadRows(self._policy)
        return account

    def _close(self, pass_: int, split: int) -> None:
        before = self._open.pop((pass_, split), None)
        if before is not None and before.count:
            self._counts[pass_, split] = max(before.count, self._counts.get((pass_, split), 0))

    def first(self) -> str:
        """Return one of the bad rows, with its place and reason; always the same, empty while there is none."""
        with self._lock:
            if not self._first:
                shown = (str(row) for account in self._open.values() for row in account.first[:1])
                self._first = next(shown, "")
            return self._first

    def counts(self) -> dict[tuple[int, int], int]:
        """Return how many rows were bad in each (pass, Split) that had any."""
        with self._lock:
            for key in list(self._open):
                account = self._open[key]
                if account.count:
                    self._counts[key] = max(account.count, self._counts.get(key, 0))
            return dict(self._counts)
