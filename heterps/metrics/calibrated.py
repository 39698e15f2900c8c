"""Clicks over predicted clicks (COPC) within groups of rows: per slot, per value of a feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heterps.metrics.errors import copc
from heterps.metrics.grouped import AUCBy, OfSlots
from heterps.metrics.metric import Floats, State

__all__ = ["COPCBy", "SlotCOPC"]


@dataclass(frozen=True)
class SlotCOPC(OfSlots):
    """COPC over the rows that have each slot: ``{slot: copc}``; tells for which part of the traffic a model is off."""

    name: str = "slot_copc"

    def init(self) -> State:
        """Return empty sums."""
        return {f"{slot}.{name}": zero for slot in range(len(self.labels)) for name, zero in copc().init().items()}

    def update(self, state: State, prediction: Floats, label: Floats, **columns: Floats) -> State:
        """Add a batch."""
        weight, added = columns.get("weight"), dict(state)
        for slot, here in enumerate(self.present(len(label), columns)):
            more = {} if weight is None else {"weight": np.asarray(weight)[here]}
            of_slot = copc().update(_of(state, slot), np.asarray(prediction)[here], np.asarray(label)[here], **more)
            added |= {f"{slot}.{name}": value for name, value in of_slot.items()}
        return added

    def merge(self, a: State, b: State) -> State:
        """Add the sums."""
        merged = ((slot, copc().merge(_of(a, slot), _of(b, slot))) for slot in range(len(self.labels)))
        return {f"{slot}.{name}": value for slot, both in merged for name, value in both.items()}

    def result(self, state: State) -> Mapping[str, float]:
        """Return the quotient of each slot."""
        return {name: copc().result(_of(state, slot)) for slot, name in enumerate(self.labels)}


def _of(state: State, slot: int) -> State:
    return {name: state[f"{slot}.{name}"] for name in copc().init()}


@dataclass(frozen=True)
class COPCBy(AUCBy):
    """COPC for each value of a column: ``{id: copc}``, the largest groups first; a group without predictions is NaN."""

    name: str = "copc_by"

    def result(self, state: State) -> Mapping[int, float]:
        """Return the quotient of each of the largest groups."""
        order = np.lexsort((state["weight"], state["score"], state["group"]))  # sums in one order, however merged
        ids, first = np.unique(state["group"][order], return_index=True)
        weight = state["weight"][order].astype(np.float64)
        shares = (weight, weight * state["positive"][order], weight * state["score"][order])
        sizes, clicks, predicted = (np.add.reduceat(share, first) if len(ids) else share for share in shares)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(predicted > 0, clicks / predicted, np.nan)
        return {int(ids[i]): float(found[i]) for i in np.lexsort((ids, -sizes))[: self.most]}
