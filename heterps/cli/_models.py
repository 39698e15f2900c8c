"""Find the model a command names: ``FILE[:function]``, or a graph saved as JSON."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from heterps.errors import GraphError, HeterpsError
from heterps.graph import Graph

__all__ = ["load_graph", "parse_settings"]


def parse_settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Turn ``name=value`` options into keyword arguments; values are JSON where they parse, else text."""
    settings = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.isidentifier():
            raise GraphError(f"--set takes name=value, got {pair!r}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # no JSON, or none that can be used
            value = text
        settings[name] = tuple(value) if isinstance(value, list) else value
    return settings


def load_graph(target: str, settings: dict[str, Any] | None = None) -> Graph:
    """Load ``graphs/wide_deep.py``, ``graphs/wide_deep.py:wide_deep`` or ``model.json``."""
    name, _, function = target.partition(":")
    path = Path(name)
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise GraphError(f"no file {name}" + (f"; {path.parent}/ has {', '.join(near)}" if near else ""))
    if path.suffix == ".json":
        return Graph.load(path)
    build = _function(_module(path), path, function)
    try:
        inspect.signature(build).bind(**(settings or {}))
    except TypeError as error:
        raise GraphError(f"{build.__name__}{inspect.signature(build)}: {error}") from None
    try:
        graph = build(**(settings or {}))
    except HeterpsError as error:
        raise GraphError(f"{path}:{_line(error, path)} in {build.__name__}(): {error}") from error
    except (Exception, SystemExit) as error:
        raise GraphError(_failed(path, error, f"{build.__name__}()")) from error
    if not isinstance(graph, Graph):
        raise GraphError(f"{build.__name__}() of {path} returned {type(graph).__name__}, expected a heterps.Graph")
    return graph


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"heterps_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise GraphError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except HeterpsError as error:
        raise GraphError(f"{path}:{_line(error, path)}: {error}") from error
    except (Exception, SystemExit) as error:
        raise GraphError(_failed(path, error, "the file")) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _failed(path: Path, error: BaseException, what: str) -> str:
    line = error.lineno if isinstance(error, SyntaxError) and error.lineno else _line(error, path)
    return f"{path}:{line}: {what} cannot be run: {type(error).__name__}: {error}"


def _line(error: BaseException, path: Path) -> int:
    """Return the line of a file in which an error came up, the innermost one."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] or 0 if lines else 0


def _function(module: ModuleType, path: Path, name: str) -> Any:
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    }
    wanted = name or path.stem
    if wanted in own:
        return own[wanted]
    if not name and len(own) == 1:
        return next(iter(own.values()))
    raise GraphError(f"{path} has no function {wanted!r}; it has {', '.join(own) or 'none'}")
