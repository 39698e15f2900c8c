"""What a user says about columns, beside what is inferred."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from heterps.errors import DataError

__all__ = ["Choices"]


@dataclass(frozen=True)
class Choices:
    """Names of source columns by the part they play; what is not named is inferred.

    Parameters
    ----------
    label, weight
        The column to predict, and the weight of a row.
    categorical, numeric
        Made into ids, into numbers.
    ignore
        Left out.
    """

    label: str = ""
    weight: str = ""
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def take(cls, options: dict[str, Any]) -> Choices:
        """Make choices of the options of a reader that are some, and leave it the rest."""
        given = {item.name: options.pop(item.name) for item in fields(cls) if item.name in options}
        return cls(**{name: _named(name, value) for name, value in given.items()})

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> bool:
        """Whether some of the options are choices."""
        return any(options.get(item.name) for item in fields(cls))

    def check(self, columns: Collection[str]) -> None:
        """Refuse names of columns that are not there, or that stand for two things."""
        part: dict[str, str] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            for name in filter(None, (value,) if isinstance(value, str) else value):
                if name not in columns:
                    there = ", ".join(columns)
                    raise DataError(f"there is no column {name!r} to be {_as(item.name)}; there are {there}")
                if name in part:
                    raise DataError(f"column {name!r} cannot be {_as(part[name])} and {_as(item.name)}")
                part[name] = item.name


def _named(option: str, value: Any) -> Any:
    if option in ("label", "weight"):
        if not isinstance(value, str):
            raise DataError(f"{option} is the name of one column, got {value!r}")
        return value
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise DataError(f"{option} takes names of columns, got {value!r}")
    return tuple(value)


def _as(option: str) -> str:
    return {"label": "the label", "weight": "the weight", "ignore": "ignored"}.get(option, option)
