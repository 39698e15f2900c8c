"""Files that people write: JSON and TOML as plain data with its place, or one error that names the file."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from heterps.errors import HeterpsError
from heterps.fields import Found, shown

__all__ = ["read_json", "read_text", "toml_of"]


def read_text(path: str | os.PathLike[str], error: type[HeterpsError]) -> str:
    """Return the text of a file."""
    try:
        return Path(path).read_bytes().decode()
    except OSError as cause:
        raise error(f"{path}: cannot be read ({cause.strerror})") from cause
    except UnicodeDecodeError as cause:
        raise error(f"{path}: not text in UTF-8 (byte {cause.start} is {cause.object[cause.start]:#04x})") from cause
    except ValueError as cause:  # a NUL in the path
        raise error(f"{os.fspath(path)!r}: cannot be read ({cause})") from cause


def read_json(path: str | os.PathLike[str], error: type[HeterpsError]) -> Found:
    """Return what a JSON file holds."""
    text = read_text(path, error)
    try:
        value = json.loads(text, object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError) as cause:  # not JSON, too many digits, a key twice; too deep
        raise error(f"{path}: not JSON that can be used ({cause})") from cause
    return Found(value, error, str(path))


def toml_of(text: str, root: str, error: type[HeterpsError]) -> Found:
    """Return what TOML text holds."""
    try:
        return Found(tomllib.loads(text), error, root)
    except (ValueError, RecursionError) as cause:
        raise error(f"{root}: not TOML that can be used ({cause})") from cause


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} stands twice in one object")
        found[key] = value
    return found
