"""``--class-weight``: what rows of a class weigh."""

from __future__ import annotations

from heterps.errors import DataError
from heterps.habits.weighting import ClassWeight

__all__ = ["parse_class_weight"]


def parse_class_weight(given: tuple[str, ...]) -> ClassWeight | None:
    """Read ``balanced``, or ``1=10`` and the like; None where nothing was given."""
    if not given:
        return None
    if given == ("balanced",):
        return "balanced"
    found: dict[int, float] = {}
    for text in given:
        label, sign, weight = text.partition("=")
        try:
            found[int(label)] = float(weight) if sign else float("nan")
        except ValueError:
            found[0] = float("nan")
        if not all(value == value for value in found.values()):
            raise DataError(f"--class-weight {text!r}: write CLASS=WEIGHT, such as 1=10, or balanced alone")
    return found
