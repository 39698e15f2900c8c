"""What to do about input that cannot be read, and the account of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from heterps.errors import DataError

__all__ = ["BadInput", "BadRow", "BadRows"]

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

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line > 0 else f"byte {self.offset}"
        return f"{self.source}, {where}: {self.reason}: {self.text!r}"


@dataclass
class BadRows:
    """How many rows were skipped, by reason, and the first ten; merges across Splits."""

    policy: BadInput = field(default_factory=BadInput)
    count: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    first: list[BadRow] = field(default_factory=list)

    def add(self, row: BadRow, reason: str = "") -> None:
        """Count a row; raise DataError when the policy says so."""
        self.count += 1
        kind = reason or row.reason
        self.reasons[kind] = self.reasons.get(kind, 0) + 1
        if len(self.first) < SHOWN:
            self.first.append(row)
        if self.policy.action == "error" or self.count > self.policy.limit:
            raise DataError(self.message())

    def absorb(self, other: BadRows) -> None:
        """Count what another read found; raise DataError when the policy says so."""
        both = self.merge(other)
        self.count, self.reasons, self.first = both.count, both.reasons, both.first
        if self.count and (self.policy.action == "error" or self.count > self.policy.limit):
            raise DataError(self.message())

    def merge(self, other: BadRows) -> BadRows:
        """Return the account of both."""
        reasons = dict(self.reasons)
        for reason, count in other.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
        first = sorted({*self.first, *other.first}, key=lambda row: (row.source, row.offset))[:SHOWN]
        return BadRows(self.policy, self.count + other.count, reasons, first)

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
