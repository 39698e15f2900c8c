"""``heterps --parts FILE ...``: parts of others are registered before a command looks for them by name."""

from __future__ import annotations

import importlib
from pathlib import Path

from heterps.cli._models import run_file
from heterps.errors import GraphError

__all__ = ["import_parts"]


def import_parts(named: tuple[str, ...]) -> None:
    """Run files, and import modules that are installed."""
    for name in named:
        if name.endswith(".py"):
            _run(Path(name))
        else:
            _import(name)


def _run(path: Path) -> None:
    if not path.is_file():
        raise GraphError(f"--parts {path}: there is no such file")
    run_file(path)


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:
        told = f"--parts {name}: cannot be imported ({type(error).__name__}: {error})"
        raise GraphError(f"{told}; what is not installed is given as a file that ends in .py") from error
