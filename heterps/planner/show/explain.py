"""Why the plan is as it is: each Layer on each pool, each cut, and the plan with one cut moved."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from heterps.errors import PlanError
from heterps.planner.costs.planning_model import is_priced, unit_prices
from heterps.planner.planner import Request
from heterps.planner.solve.assemble import Draft
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.sizing import sized

__all__ = ["CutNote", "Explanation", "LayerNote", "MoveNote", "explain"]


@dataclass(frozen=True)
class LayerNote:
    """A Layer: why it is labelled as it is, and seconds and price per million rows on each pool it may run on."""

    layer: str
    reason: str
    chosen: str
    seconds: dict[str, float]
    price: dict[str, float]


@dataclass(frozen=True)
class CutNote:
    """A legal cut in the chosen order: bytes per row that cross before a Layer, and whether the plan cuts there."""

    before: str
    bytes_per_row: float
    taken: bool


@dataclass(frozen=True)
class MoveNote:
    """The plan with one cut moved by a Layer, or taken away: its price over the plan's, None if that cannot run."""

    what: str
    ratio: float | None


@dataclass(frozen=True)
class Explanation:
    """Notes on Layers, cuts and moves."""

    layers: tuple[LayerNote, ...]
    cuts: tuple[CutNote, ...]
    moves: tuple[MoveNote, ...]

    @property
    def is_priced(self) -> bool:
        """Whether anything that a Layer may run on has a price."""
        return any(price for note in self.layers for price in note.price.values())


def explain(request: Request) -> Explanation:
    """Explain the plan that a request leads to."""
    try:
        choice = request.best()
    except UndecidedError as error:
        raise PlanError(f"there is no plan to explain: {error}") from error
    if choice is None:
        raise PlanError("there is no plan to explain")
    draft = choice.draft
    return Explanation(tuple(_layers(draft)), tuple(_cuts(draft)), tuple(_moves(draft)))


def _layers(draft: Draft) -> list[LayerNote]:
    chosen = {v: draft.pool(s.type).name for s in draft.found.placement.segments for v in draft.problem.stage_layers(s)}
    # Of a product's units: an even part of its price, not the part that some bound gives them.
    worth = np.array(unit_prices(draft.costs.hardware)) * is_priced(draft.costs.hardware)
    notes = []
    for v, layer in enumerate(draft.costs.layers.layers):
        pools = [(t, pool) for t, pool in enumerate(draft.costs.hardware.pools) if draft.problem.allowed[v, t]]
        costs = {pool.name: draft.costs.cost(layer, pool) for _, pool in pools}
        seconds = {name: max(cost.compute_s, cost.data_s) for name, cost in costs.items()}
        per_row = 1e6 / 3600 / draft.costs.batch_size
        price = {pool.name: float(seconds[pool.name] * worth[t] * per_row) for t, pool in pools}
        notes.append(LayerNote(layer.name, layer.reason, chosen[v], seconds, price))
    return notes


def _order(draft: Draft) -> list[int]:
    """Layers stage by stage, in their own order within a stage."""
    return [v for segment in draft.found.placement.segments for v in draft.problem.stage_layers(segment)]


def _cuts(draft: Draft) -> list[CutNote]:
    order, layers = _order(draft), draft.costs.layers.layers
    ends = {int(draft.problem.members[s.stop].sum()) for s in draft.found.placement.segments}
    crossing = _along(draft).cut_bytes
    return [CutNote(layers[order[i]].name, float(crossing[i]), i in ends) for i in range(1, len(order))]


def _along(draft: Draft) -> Problem:
    """The problem with states that add one Layer at a time in the plan's order."""
    order = _order(draft)
    members = np.zeros((len(order) + 1, len(order)), np.bool_)
    for i, v in enumerate(order):
        members[i + 1 :, v] = True
    return replace(draft.problem, members=members)


def _moves(draft: Draft) -> list[MoveNote]:
    ends = [0, *(int(draft.problem.members[s.stop].sum()) for s in draft.found.placement.segments)]
    types = [s.type for s in draft.found.placement.segments]
    notes = [_moved(draft, ends, types, i, step) for i in range(1, len(ends) - 1) for step in (-1, 1)]
    whole = [
        MoveNote(f"all on {draft.pool(t).name}", _ratio(draft, [0, ends[-1]], [t]))
        for t in (sorted(set(types)) if len(types) > 1 else [])
    ]
    return [note for note in notes if note is not None] + whole


def _moved(draft: Draft, ends: list[int], types: list[int], i: int, step: int) -> MoveNote | None:
    """The plan with its i-th cut a Layer earlier or later; None if that empties a stage."""
    moved = [*ends[:i], ends[i] + step, *ends[i + 1 :]]
    if not moved[i - 1] < moved[i] < moved[i + 1]:
        return None
    layer = draft.costs.layers.layers[_order(draft)[min(ends[i], moved[i])]]
    pool = draft.pool(types[i] if step < 0 else types[i - 1])
    return MoveNote(f"{layer.name} on {pool.name}", _ratio(draft, moved, types))


def _ratio(draft: Draft, ends: list[int], types: list[int]) -> float | None:
    stages = [(a, b, t) for (a, b), t in zip(itertools.pairwise(ends), types, strict=True)]
    placed = sized(_along(draft), stages, draft.found.rows_per_second)
    return None if placed is None else placed.price / draft.found.placement.price
