"""The option that says how parameters travel, the same for every command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from heterps.errors import PlanError

__all__ = ["parameters_option", "parse_caches", "parse_ways"]

_F = TypeVar("_F", bound=Callable[..., Any])


def parameters_option(command: _F) -> _F:
    """Add ``--parameters``."""
    return click.option(
        "--parameters",
        multiple=True,
        metavar="PATTERN=WAY",
        help="How parameters travel, such as fc*=allreduce [default: as the plan says, else table].",
    )(command)


def parse_ways(pairs: Iterable[str]) -> dict[str, str]:
    """Read what was given; several may stand in one, with commas between them."""
    ways: dict[str, str] = {}
    for pair in (each.strip() for given in pairs for each in given.split(",")):
        pattern, sign, way = pair.rpartition("=")
        if not (pattern and sign and way):
            raise PlanError(f"--parameters takes PATTERN=WAY, got {pair!r}")
        if ways.setdefault(pattern, way) != way:
            raise PlanError(f"--parameters names {pattern!r} twice, as {ways[pattern]} and as {way}")
    return ways


def parse_caches(given: Iterable[str]) -> dict[str, int | str]:
    """Read ``ROWS`` of every table, or ``TABLE=ROWS``; several may stand in one, with commas between them."""
    caches: dict[str, int | str] = {}
    for each in (each.strip() for text in given for each in text.split(",")):
        table, sign, rows = each.rpartition("=")
        if not rows or bool(table) != bool(sign):
            raise PlanError(f"--cache-rows takes ROWS, BYTES or TABLE=ROWS, got {each!r}")
        if (table or "*") in caches:
            raise PlanError(f"--cache-rows names {table or 'all tables'!r} twice")
        caches[table or "*"] = rows
    return caches
