"""What a model asks of the labels in the data, and what to say if no row can be used."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from heterps.data import BadInput, BadRows, Dataset
from heterps.errors import DataError, HeterpsError
from heterps.graph import Graph, Op

__all__ = ["label_bounds", "no_rows"]

_EVERY = 1 << 62


def label_bounds(graph: Graph) -> dict[str, tuple[float, float]]:
    """Return the columns that losses compare with, and the values they take: a logloss those from 0 to 1."""
    losses = [op for op in graph if op.kind in _BOUNDS and graph[op.inputs[1]].kind == "input"]
    return {op.inputs[1]: _BOUNDS[op.kind](graph, op) for op in losses}


def _unit(graph: Graph, op: Op) -> tuple[float, float]:
    return 0.0, 1.0


def _classes(graph: Graph, op: Op) -> tuple[float, float]:
    return 0.0, graph[op.inputs[0]].type.shape[-1] - 1.0


def _any(graph: Graph, op: Op) -> tuple[float, float]:
    return -math.inf, math.inf


_BOUNDS = {"logloss": _unit, "multi_logloss": _unit, "softmax_cross_entropy": _classes, "mse": _any}


def no_rows(verb: str, dataset: Dataset) -> DataError:
    """Say that no row could be used, and why not, from a look at the first Split."""
    bad = BadRows(BadInput("skip", _EVERY))
    with suppress(HeterpsError):  # then there is no example to show
        data = replace(dataset, bad_input=bad.policy)
        for _ in data.read(data.splits()[0], batch_size=1024, bad=bad):
            pass
    if not bad.count:
        return DataError(f"nothing was {verb}: the data has no rows (allow_empty=True, --allow-empty accepts that)")
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(bad.reasons.items()))
    shown = "".join(f"\n  {row}" for row in bad.first[:3])
    return DataError(
        f"nothing was {verb}: every row is bad. The first Split has {bad.count} ({why}):{shown}\n"
        "Check columns, delimiter and labels (allow_empty=True, --allow-empty accepts data without a usable row)."
    )
