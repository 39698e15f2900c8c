"""``--reduce-on-plateau``: smaller steps when the validation gets no better."""

from __future__ import annotations

import inspect

from heterps.errors import RunError
from heterps.habits import ReduceOnPlateau

__all__ = ["parse_plateau"]

_NUMBERS = {"factor": float, "patience": int, "least": float, "lowest": float}


def parse_plateau(text: str | None) -> list[ReduceOnPlateau]:
    """Read ``auc`` or ``auc:factor=0.5,patience=2``; nothing where nothing was given."""
    if text is None:
        return []
    metric, _, options = text.partition(":")
    given: dict[str, float] = {}
    for part in filter(None, options.split(",")):
        name, _, value = part.partition("=")
        try:
            given[name] = _NUMBERS[name](value)
        except (KeyError, ValueError):
            known = ", ".join(f"{each}={_default(each)}" for each in _NUMBERS)
            raise RunError(f"--reduce-on-plateau {text!r}: write METRIC or METRIC:{known}; {part!r} is none") from None
    return [ReduceOnPlateau(metric, **given)]  # type: ignore[arg-type]


def _default(name: str) -> object:
    return inspect.signature(ReduceOnPlateau).parameters[name].default
