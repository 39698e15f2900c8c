"""The option that says where rows of tables are kept, the same for every command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from heterps.errors import PlanError

__all__ = ["parse_storage", "storage_option"]

_F = TypeVar("_F", bound=Callable[..., Any])


def storage_option(command: _F) -> _F:
    """Add ``--storage``."""
    return click.option(
        "--storage",
        multiple=True,
        metavar="TABLE=WHERE",
        help="Where rows of a table (a pattern) are: memory, ssd, gpu or gpu+ssd [default: as the model says].",
    )(command)


def parse_storage(pairs: Iterable[str]) -> dict[str, str]:
    """Read what was given; several may stand in one, with commas between them."""
    found: dict[str, str] = {}
    for pair in (each.strip() for given in pairs for each in given.split(",")):
        pattern, sign, tier = pair.rpartition("=")
        if not (pattern and sign and tier):
            raise PlanError(f"--storage takes TABLE=WHERE, got {pair!r}")
        if found.setdefault(pattern, tier) != tier:
            raise PlanError(f"--storage names {pattern!r} twice, as {found[pattern]} and as {tier}")
    return found
