"""How each parameter travels between workers: patterns over names, resolved once into one value.

The one place that knows the ways there are, which kind of parameter each can carry, and which of them engines run.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heterps.errors import PlanError
from heterps.graph import Graph
from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.modes import Async, Mixed, MixedSync, Mode, Sync
from heterps.stages.lowering import groups_of

__all__ = ["ALLREDUCE", "CACHE", "GEO", "TABLE", "Way", "cache_ways", "mixed_mode", "parse_way", "resolve_ways"]

TABLE, ALLREDUCE, GEO, CACHE = "table", "allreduce", "geo", "cache"
_NUMBERS = {TABLE: "", ALLREDUCE: "", GEO: "k", CACHE: "rows"}  # what stands behind the colon
_CARRIES = {ALLREDUCE: "dense parameters", CACHE: "tables", GEO: "tables"}  # the other way carries both
_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?|)B")
_POWERS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@dataclass(frozen=True)
class Way:
    """A way for a parameter: through its table, all-reduced, as a copy of one's own (Geo), through a cache of rows.

    ``number`` is the k of Geo, the rows or bytes of a cache; None for the ways that have none.
    """

    kind: str = TABLE
    number: int | None = None
    in_bytes: bool = False

    def __str__(self) -> str:
        return self.kind if self.number is None else f"{self.kind}:{self.number}{'B' if self.in_bytes else ''}"


def parse_way(text: str) -> Way:
    """Read a way as users write it."""
    kind, colon, number = text.partition(":") if isinstance(text, str) else (text, "", "")
    if kind not in _NUMBERS:
        forms = (name + (f":{number}" if number else "") for name, number in _NUMBERS.items())
        raise PlanError(f"parameters: the way {text!r} is not known: use one of {', '.join(forms)}")
    wanted = _NUMBERS[kind]
    size = _BYTES.fullmatch(number) if kind == CACHE else None
    if size and float(size[1]):
        return Way(kind, max(1, int(float(size[1]) * _POWERS[size[2]])), in_bytes=True)
    if bool(colon) != bool(wanted) or (wanted and not (number.isascii() and number.isdigit() and int(number))):
        form = f"{kind}:{wanted} with a whole number of at least 1" if wanted else f"{kind!r} alone"
        more = ", or with bytes such as cache:64MB" if kind == CACHE else ""
        raise PlanError(f"parameters: the way {text!r} is not understood: write {form}{more}")
    return Way(kind, int(number) if wanted else None)


def cache_ways(graph: Graph, cache: int | str | Mapping[str, int | str]) -> dict[str, str]:
    """Return the ways of tables that have a cache: rows or bytes for each, or by the name or pattern of tables.

    A name counts before a pattern, as in :func:`resolve_ways`.
    """
    tables = [table for group in groups_of(graph) for table in group.tables]
    if not isinstance(cache, Mapping):
        cache = {"*": cache}
    found: dict[str, str] = {}
    for pattern in sorted(cache, key=lambda pattern: (pattern in tables, pattern != "*")):
        names = fnmatch.filter(tables, pattern)
        if not names:
            raise PlanError(f"cache_rows: {pattern!r} matches no table; there are {_some(tables)}")
        found |= dict.fromkeys(names, f"{CACHE}:{cache[pattern]}")
    for way in found.values():
        parse_way(way)
    return found


def resolve_ways(graph: Graph, patterns: Mapping[str, str]) -> dict[str, Way]:
    """Return the way of every dense parameter (``op.name``) and every table; what no pattern names goes by its table.

    A name itself (of a parameter, its op, or a table) counts before a pattern, a pattern before ``*``. Patterns of one
    rank that disagree about a parameter are an error, as is one that matches nothing.
    """
    dense = {piece.name: (piece.name, piece.op) for piece in ParamLayout(graph)}
    groups = groups_of(graph)
    tables = {table: (table,) for group in groups for table in group.tables}
    ways = {pattern: parse_way(text) for pattern, text in patterns.items()}
    for pattern in ways:
        if not any(fnmatch.filter(names, pattern) for names in (*dense.values(), *tables.values())):
            raise PlanError(
                f"parameters: {pattern!r} matches nothing; dense parameters are {_some(dense)}, tables {_some(tables)}"
            )
    found = {name: _way_of(name, names, ways) for name, names in (dense | tables).items()}
    for name in dense:
        _check_kind(f"dense parameter {name!r}", found[name], CACHE, "a cache holds rows of tables")
        _check_kind(
            f"dense parameter {name!r}", found[name], GEO, "of these all do or none (mode 'geo:K', --mode geo:K)"
        )
    for name in tables:
        _check_kind(f"table {name!r}", found[name], ALLREDUCE, "its rows do not fit on every worker")
    for group in groups:
        if len({found[table] for table in group.tables}) > 1:
            shown = ", ".join(f"{table} {found[table]}" for table in sorted(group.tables))
            raise PlanError(f"parameters: tables that are looked up by the same ids share rows and so a way: {shown}")
    _check_ranges(found)
    return found


def mixed_mode(mode: Mode, parameters: Mapping[str, str]) -> Mode:
    """Return the mode in which some tables can travel by Geo, if any does: that takes the place of Async or Sync."""
    ranges = [way.number for way in map(parse_way, parameters.values()) if way.kind == GEO and way.number]
    if isinstance(mode, Mixed | MixedSync) and not ranges:
        raise PlanError(
            f"mode {mode.name!r}, but no table travels by geo: say which (parameters={{'user_*': 'geo:100'}})"
        )
    if ranges and isinstance(mode, Sync | MixedSync):
        return MixedSync(ranges[0])
    if not ranges or not isinstance(mode, Async | Mixed):
        return mode  # the job refuses the way in another one
    if isinstance(mode, Async) and mode.merge > 1:
        raise PlanError(f"Async(merge={mode.merge}) beside the way 'geo:{ranges[0]}', which goes with single batches")
    return Mixed(ranges[0], mode.depth)


def _check_ranges(found: Mapping[str, Way]) -> None:
    """Refuse ranges that end at different batches."""
    own = {name: way for name, way in found.items() if way.kind == GEO}
    if len(set(own.values())) > 1:
        said = ", ".join(f"{name} {way}" for name, way in own.items())
        raise PlanError(f"parameters: ranges of batches end for all tables at once, so give all the same k: {said}")


def _way_of(name: str, names: Iterable[str], ways: Mapping[str, Way]) -> Way:
    """Return the way that the patterns of the highest rank agree on."""
    ranks: dict[int, dict[str, Way]] = {}
    for pattern, way in ways.items():
        if fnmatch.filter(names, pattern):
            ranks.setdefault(2 if pattern in names else 0 if pattern == "*" else 1, {})[pattern] = way
    if not ranks:
        return Way()
    highest = ranks[max(ranks)]
    if len(set(highest.values())) > 1:
        said = " and ".join(f"{pattern!r} says {way}" for pattern, way in highest.items())
        raise PlanError(f"parameters: {said} of {name!r}: name it alone, or make the patterns agree")
    return next(iter(highest.values()))


def _check_kind(what: str, way: Way, impossible: str, reason: str) -> None:
    if way.kind == impossible:
        raise PlanError(
            f"parameters: {what} cannot travel by {str(way)!r}: {reason}. That way is for {_CARRIES[impossible]}"
        )


def _some(names: Iterable[str]) -> str:
    """Return the first few of many names."""
    listed = list(names)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return (", ".join(listed[:8]) or "none") + more
