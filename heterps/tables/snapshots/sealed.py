"""Small JSON files that nobody can change unnoticed: the last entry is the hash of all that comes before it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from heterps.errors import CheckpointError

__all__ = ["seal_of", "sealed", "unsealed"]

_SEAL = "sha256"


def sealed(value: dict[str, Any]) -> str:
    """Return the text of a description, with the hash of all that comes before it."""
    return json.dumps(value | {_SEAL: seal_of(value)}, indent=1) + "\n"


def seal_of(value: dict[str, Any]) -> str:
    """Return the hash of a description, by which others may name it."""
    return hashlib.sha256(json.dumps(value, indent=1).encode()).hexdigest()


def unsealed(path: Path, text: bytes, format_: str) -> dict[str, Any]:
    """Inverse of :func:`sealed`; not a single bit may be another. ``path`` is named by errors."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(value, dict) or value.get("format") != format_:
        raise CheckpointError(f"{path} is not of format {format_!r}, or damaged")
    value.pop(_SEAL, None)
    if sealed(value).encode() != text:
        raise CheckpointError(f"{path} is damaged or was edited: its sha256 does not fit; write it again")
    return value
