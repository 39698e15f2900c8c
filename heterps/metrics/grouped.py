"""AUC within groups of rows: per user (GAUC), per value of a feature, per slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import njit
from heterps.metrics.auc import BINS, UNIT, area, weights
from heterps.metrics.metric import Floats, State, flat

__all__ = ["GAUC", "AUCBy", "OfSlots", "SlotAUC"]


@njit(nogil=True, cache=True)
def _group_areas(group: Any, score: Any, positive: Any, weight: Any, areas: Any, sizes: Any) -> Any:
    """Fill one area (NaN: one class only) and weight a group of rows sorted by group, then score; return the groups."""
    groups, i = 0, 0
    while i < len(group):
        begin = i
        below = pairs = plus = 0.0
        while i < len(group) and group[i] == group[begin]:
            tie, up, down = i, 0.0, 0.0
            while i < len(group) and group[i] == group[begin] and score[i] == score[tie]:
                if positive[i]:
                    up += weight[i]
                else:
                    down += weight[i]
                i += 1
            pairs += up * (below + down / 2)
            below += down
            plus += up
        areas[groups] = pairs / (plus * below) if plus > 0 and below > 0 else np.nan
        sizes[groups] = plus + below
        groups += 1
    return groups


@dataclass(frozen=True)
class AUCBy:
    """AUC for each value of a column: ``{id: auc}``, the largest groups first.

    The state holds the rows themselves (21 bytes each): it merges exactly, and is meant for held-out data.

    Parameters
    ----------
    group
        Column of group ids (uint64), for example a user id.
    element
        Which element of the column, if it has several.
    most
        How many groups to report.
    """

    group: str = "group"
    element: int = 0
    most: int = 100
    name: str = "auc_by"

    def init(self) -> State:
        """Return no rows."""
        return {
            "group": np.empty(0, np.uint64),
            "score": np.empty(0, np.float32),
            "positive": np.empty(0, np.bool_),
            "weight": np.empty(0, np.int64),
        }

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Add a batch."""
        if self.group not in columns:
            raise KeyError(f"{self.name} needs the column {self.group!r}; there are {', '.join(columns) or 'none'}")
        rows = len(label)
        group = np.asarray(columns[self.group], np.uint64).reshape(rows, -1)[:, self.element]
        score, positive = flat(prediction, np.float32), flat(label) > 0.5
        return self.merge(
            state, {"group": group, "score": score, "positive": positive, "weight": weights(rows, columns)}
        )

    def merge(self, a: State, b: State) -> State:
        """Put the rows together."""
        return {name: np.concatenate([a[name], b[name]]) for name in a}

    def areas(self, state: State) -> tuple[npt.NDArray[np.uint64], npt.NDArray[Any], npt.NDArray[Any]]:
        """Return group ids, areas and weights."""
        order = np.lexsort((state["score"], state["group"]))
        ids = np.unique(state["group"])
        areas, sizes = np.empty(len(ids)), np.empty(len(ids))
        sorted_ = [state[name][order] for name in ("group", "score", "positive", "weight")]
        _group_areas(*sorted_, areas, sizes)
        return ids, areas, sizes / UNIT

    def result(self, state: State) -> Any:
        """Return the area of each of the largest groups that hold both classes."""
        ids, areas, sizes = self.areas(state)
        order = np.lexsort((ids, -sizes))
        both = order[~np.isnan(areas[order])]
        return {int(ids[i]): float(areas[i]) for i in both[: self.most]}


@dataclass(frozen=True)
class GAUC(AUCBy):
    """Grouped AUC: the mean of the groups' AUCs weighted by rows; groups of one class are left out."""

    name: str = "gauc"

    def result(self, state: State) -> float:
        """Return the weighted mean; NaN without a group of both classes."""
        _, areas, sizes = self.areas(state)
        both = ~np.isnan(areas)
        return float(np.average(areas[both], weights=sizes[both])) if both.any() else float("nan")


@dataclass(frozen=True)
class OfSlots:
    """What measures the rows that have each slot.

    Parameters
    ----------
    column
        Name of a sparse column ``[n, slots]``.
    labels
        The slots' names, in order.
    absent
        The id that stands for "missing" in each slot (``schema["ids"].absent``); 0 each if not given.
    """

    column: str = "ids"
    labels: tuple[str, ...] = ()
    absent: tuple[int, ...] = ()

    def present(self, rows: int, columns: Mapping[str, Any]) -> list[npt.NDArray[np.bool_]]:
        """Return for each slot which rows have it."""
        ids = np.asarray(columns[self.column], np.uint64).reshape(rows, len(self.labels))
        return list((ids != np.array(self.absent or [0] * len(self.labels), np.uint64)).T)


@dataclass(frozen=True)
class SlotAUC(OfSlots):
    """AUC over the rows that have each slot: ``{slot: auc}``; tells which part of the traffic a model ranks badly."""

    bins: int = BINS
    name: str = "slot_auc"

    def init(self) -> State:
        """Return empty histograms."""
        return {"counts": np.zeros((len(self.labels), 2, self.bins), np.int64)}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Count a batch."""
        scores = np.nan_to_num(np.clip(flat(prediction), 0.0, 1.0))
        at = np.minimum((scores * self.bins).astype(np.int64), self.bins - 1)
        side, weight = (flat(label) > 0.5).astype(np.int64), weights(len(at), columns)
        counts = state["counts"].copy()
        for slot, here in enumerate(self.present(len(at), columns)):
            np.add.at(counts[slot], (side[here], at[here]), weight[here])
        return {"counts": counts}

    def merge(self, a: State, b: State) -> State:
        """Add the histograms."""
        return {"counts": a["counts"] + b["counts"]}

    def result(self, state: State) -> Mapping[str, float]:
        """Return the area of each slot."""
        return {name: area(counts[1], counts[0]) for name, counts in zip(self.labels, state["counts"], strict=True)}
