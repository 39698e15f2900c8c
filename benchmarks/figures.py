"""Figures of measured rows: rates, ratios within a round, and how far the machine was ours."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.systems import INLINE, OURS

#: Cores that others and the hypervisor may take before a figure is not judged.
FREE_ENOUGH = 0.2
Row = dict[str, Any]


def rates(row: Row, per_core: bool = False) -> list[float]:
    """Samples per second, or per CPU second, of each window."""
    return [w["samples"] / (w["cpu_seconds"] if per_core else w["seconds"]) for w in row["windows"]]


def cores(row: Row) -> float:
    """CPU seconds per second that a system used."""
    return median(w["cpu_seconds"] / w["seconds"] for w in row["windows"])


def taken(row: Row) -> float:
    """Cores that others, or the machine's hypervisor, took during a system's windows."""
    return median(w["others"] + w["stolen"] for w in row["windows"])


def ratios(ours: Row, theirs: Row, per_core: bool = False) -> list[float]:
    """Ours over theirs, round by round."""
    pairs = zip(rates(ours, per_core), rates(theirs, per_core), strict=False)
    return [a / b for a, b in pairs]


def row_of(rows: list[Row], *names: str) -> Row | None:
    """The first of these systems that ran."""
    for name in names:
        for row in rows:
            if row["name"] == name and row["windows"]:
                return row
    return None


def reference(rows: list[Row]) -> Row:
    """The row that the others are compared with: ours, or PyTorch where ours did not run."""
    return row_of(rows, OURS, INLINE, "PyTorch") or next(row for row in rows if row["windows"])


def best_torch(rows: list[Row]) -> Row | None:
    """The fastest configuration of PyTorch in these rounds."""
    found = [row for row in rows if row["name"].startswith("PyTorch") and row["windows"]]
    return max(found, key=lambda row: median(rates(row)), default=None)
