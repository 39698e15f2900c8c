"""What a label has to be for its row to be used: there, and within bounds. The same for every reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from heterps.data.core.recipes import Match, Number, Recipe
from heterps.data.core.schema import Field

__all__ = ["LabelRule", "Labels", "default_of", "is_required"]


@dataclass(frozen=True)
class LabelRule:
    """The rule of one column: rows without a value, or with one outside ``low .. high``, are bad."""

    required: bool = False
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_open(self) -> bool:
        """Whether any value will do."""
        return not self.required and self.low == -math.inf and self.high == math.inf


@dataclass(frozen=True)
class Labels:
    """The rules of a dataset.

    Parameters
    ----------
    needed
        Whether a row without label (or weight) is bad; where it is not, a missing label is NaN. A recipe with a
        default, ``Number(..., missing=0.0)``, never lacks one.
    bounds
        (column, low, high): a value outside makes the row bad. The columns are labels, whatever their kind.
    """

    needed: bool = True
    bounds: tuple[tuple[str, float, float], ...] = ()

    @classmethod
    def within(cls, bounds: Mapping[str, tuple[float, float]]) -> Labels:
        """Return rules with these bounds."""
        return cls(bounds=tuple((name, low, high) for name, (low, high) in bounds.items()))

    def rule(self, column: Field) -> LabelRule:
        """Return the rule of a column."""
        if not self.needed or column.kind in ("sparse", "ragged"):
            return LabelRule()
        for name, low, high in self.bounds:
            if name == column.name:
                return LabelRule(True, low, high)
        return LabelRule(column.kind in ("label", "weight"))


def is_required(recipe: Recipe, rule: LabelRule) -> bool:
    """Whether a row is bad where the source of a recipe is missing: the rule says so, and the recipe has no default."""
    return rule.required and _given(recipe) is None


def _given(recipe: Recipe) -> float | None:
    if isinstance(recipe, Match) and recipe.value == "":
        return 1.0  # it looks for just that
    return recipe.missing if isinstance(recipe, Number | Match) else None


def default_of(recipe: Recipe, column: Field) -> float:
    """Return what a recipe makes of a missing number: what it says, else NaN for a label and 0 for a feature."""
    given = _given(recipe)
    if given is not None:
        return given
    return math.nan if column.kind in ("label", "weight") else 0.0
