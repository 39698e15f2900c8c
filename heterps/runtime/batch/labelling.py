"""What a model asks of the labels in the data, and what to say if no row can be used."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from heterps.data import BadInput, BadRows, Dataset, Number
from heterps.data.study.column_study import ColumnLook
from heterps.errors import DataError, HeterpsError, LabelError
from heterps.graph import Graph, Op

__all__ = ["check_labels", "label_bounds", "no_rows"]

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


def check_labels(graph: Graph, data: Dataset) -> None:
    """Raise a LabelError where a look at the data showed that most labels are none that the loss takes.

    Parameters
    ----------
    graph
        The model.
    data
        With a study of its source columns; without one nothing is known, and bad rows are counted in training.
    """
    looks = {one.look.name: one.look for one in data.study.columns} if data.study else {}
    for name, bounds in label_bounds(graph).items():
        of = data.schema[name].of if name in data.schema else ()
        if of and isinstance(of[0], Number) and of[0].source in looks:
            look = looks[of[0].source]
            present, inside = look.rows - look.missing, _inside(look, of[0], bounds)
            if 2 * inside < present:
                losses = [op.kind for op in graph if op.kind in _BOUNDS and op.inputs[1] == name]
                raise LabelError(
                    f"{_described(look)}, and the model's loss ({losses[0]}) takes {_taken(bounds)}: "
                    f"{present - inside:,} of {present:,} labels looked at could not be used. "
                    "Take another label, or a model with another loss (loss='mse' of built-in ones)"
                )


def _inside(look: ColumnLook, recipe: Number, bounds: tuple[float, float]) -> int:
    """Return how many of the labels looked at lie within bounds, made as they are for a batch."""
    found = look.numbers
    if recipe.log:
        found = np.sign(found) * np.log1p(np.abs(found))
    made = (found - recipe.mean) / recipe.std
    return int(((made >= bounds[0]) & (made <= bounds[1])).sum())


def _described(look: ColumnLook) -> str:
    if len(look.numbers):
        return f"the label {look.name!r} lies from {look.low} to {look.high}"
    return f"the label {look.name!r} is text of {look.distinct:,} different values, {look.low!r} to {look.high!r}"


def _taken(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{low:g} to {high:g}" if math.isfinite(low) else "numbers"


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
