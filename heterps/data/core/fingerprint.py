"""What tells one dataset from another without reading it: names, sizes, times, footers. For runs that go on later."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from heterps.data.core.files import is_url, modified_at, size_of
from heterps.data.core.schema import Schema

__all__ = ["columns_mark", "differences", "digest", "file_marks"]

_LISTED = 200  # files named one by one; of more only their number, size and a digest are kept


def digest(value: Any) -> str:
    """Return eight hex digits of anything JSON-able, or of bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return f"{zlib.crc32(data):08x}"


def columns_mark(schema: Schema) -> dict[str, str]:
    """Return a mark for each column: how it is made."""
    return {column.name: digest(column.to_json()) for column in schema}


def file_marks(paths: Sequence[str]) -> dict[str, Any]:
    """Return name, size and time of files; folders may have been moved."""
    marks = [f"{_name(path)}: {size_of(path)} bytes of {modified_at(path)}" for path in paths]
    if len(marks) <= _LISTED:
        return {"files": marks}
    return {"files": len(marks), "bytes": sum(map(size_of, paths)), "digest": digest(marks)}


def _name(path: str) -> str:
    return path if is_url(path) else os.path.basename(path)


def differences(before: Any, now: Any, name: str = "") -> Iterable[str]:
    """Yield a line for each thing that two JSON values have different."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from differences(before.get(key), now.get(key), f"{name}, {key}" if name else str(key))
    elif isinstance(before, list) and isinstance(now, list) and before != now:
        gone, new = [x for x in before if x not in now], [x for x in now if x not in before]
        if gone or new:
            yield f"{name}: had {_listed(gone)}, has {_listed(new)}"
        else:
            yield f"{name}: in another order or number"
    elif before != now:
        yield f"{name}: was {before}, is {now}"


def _listed(items: list[Any]) -> str:
    shown = ", ".join(map(str, items[:3]))
    return (shown + (f" and {len(items) - 3} more" if len(items) > 3 else "")) or "nothing else"
