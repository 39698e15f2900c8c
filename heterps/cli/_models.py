"""Find the model a command names: ``FILE[:function]``, or a graph saved as JSON."""

from __future__ import annotations

import inspect
import json
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from heterps import models
from heterps.data import Schema
from heterps.errors import GraphError, HeterpsError
from heterps.graph import Graph
from heterps.own_modules import NotPythonError, import_file

__all__ = ["is_saved_plan", "load_graph", "parse_settings", "run_file", "takes_setting"]


def parse_settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Turn ``name=value`` options into keyword arguments; values are JSON where they parse, else text."""
    settings = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.isidentifier():
            raise GraphError(f"--set takes name=value, got {pair!r}")
        settings[name] = _value(text)
    return settings


def _value(text: str) -> Any:
    """Return what a value means: JSON, several with commas between as a tuple, else the text."""
    try:
        value = json.loads(text)
        return tuple(value) if isinstance(value, list) else value
    except (ValueError, RecursionError):  # no JSON, or none that can be used
        pass
    inner = text.strip().removeprefix("(").removesuffix(")").strip().removesuffix(",")
    if inner == text.strip() and "," not in inner:
        return text
    try:
        return tuple(json.loads(f"[{inner}]"))
    except (ValueError, RecursionError):
        return text


def load_graph(target: str, settings: dict[str, Any] | None = None, schema: Schema | None = None) -> Graph:
    """Load a model.

    Parameters
    ----------
    target
        The name of one in :mod:`heterps.models`, ``my_model.py``, ``my_model.py:function`` or ``graph.json``.
    settings
        Arguments of the function.
    schema
        Columns of the data: arguments called slots, dense and weighted follow from them unless they are set.
    """
    if is_saved_plan(target):
        raise GraphError(
            f"{target} is a plan, expected a model: `heterps train` runs it, `heterps plan diff` compares two"
        )
    if _is_saved(target):
        return Graph.load(target)
    build, path = _found(target)
    return _built(build, path, _arguments(build, settings or {}, schema))


def takes_setting(target: str, name: str) -> bool:
    """Whether the function that makes a model has an argument of that name."""
    return not _is_saved(target) and name in inspect.signature(_found(target)[0]).parameters


def is_saved_plan(target: str) -> bool:
    """Whether a target is the file of a plan."""
    try:
        with open(target, errors="replace") as file:
            return target.endswith(".json") and '"heterps-plan/' in file.read(200)
    except OSError:
        return False


def _is_saved(target: str) -> bool:
    path = Path(target.partition(":")[0])
    return path.suffix == ".json" and path.exists()


def _found(target: str) -> tuple[Any, Path]:
    """Return the function that a target names, and its file."""
    name, _, function = target.partition(":")
    path = Path(name)
    if not function and not path.is_file() and name in models.__all__:
        return getattr(models, name), Path(models.__path__[0]) / f"{name}.py"
    if path.exists():
        return _function(run_file(path), path, function), path
    near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
    there = f"; {path.parent}/ has {', '.join(near)}" if near else ""
    raise GraphError(f"no file {name}{there}; models known by name are {', '.join(models.__all__)}")


def _arguments(build: Any, settings: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    """Return the settings, with what follows from the data; one number for a tuple is a tuple of one."""
    known = inspect.signature(build).parameters
    given = dict(settings)
    for name, value in settings.items():
        if name in known and isinstance(known[name].default, tuple) and isinstance(value, int | float):
            given[name] = (value,)
    return {name: value for name, value in _offered(schema).items() if name in known} | given


def _offered(schema: Schema | None) -> dict[str, Any]:
    if schema is None or not {"ids", "x"} & set(schema.names):
        return {}
    width = {name: schema[name].width if name in schema else 0 for name in ("ids", "x")}
    weighted = {"weighted": True} if "weight" in schema else {}
    return ({"slots": width["ids"]} if width["ids"] else {}) | {"dense": width["x"]} | weighted


def _built(build: Any, path: Path, settings: dict[str, Any]) -> Graph:
    try:
        inspect.signature(build).bind(**settings)
    except TypeError as error:
        raise GraphError(f"{build.__name__}{inspect.signature(build)}: {error}") from None
    try:
        graph = build(**settings)
    except HeterpsError as error:
        raise GraphError(f"{path}:{_line(error, path)} in {build.__name__}(): {error}") from error
    except (Exception, SystemExit) as error:
        raise GraphError(_failed(path, error, f"{build.__name__}()")) from error
    if not isinstance(graph, Graph):
        raise GraphError(f"{build.__name__}() of {path} returned {type(graph).__name__}, expected a heterps.Graph")
    return graph


def run_file(path: Path) -> ModuleType:
    """Run a Python file of the user's as a module; what goes wrong in it is a GraphError with its line."""
    try:
        return import_file(path, f"heterps_model_{path.stem}")
    except NotPythonError as error:
        raise GraphError(str(error)) from None
    except HeterpsError as error:
        raise GraphError(f"{path}:{_line(error, path)}: {error}") from error
    except (Exception, SystemExit) as error:
        raise GraphError(_failed(path, error, "the file")) from error


def _failed(path: Path, error: BaseException, what: str) -> str:
    line = error.lineno if isinstance(error, SyntaxError) and error.lineno else _line(error, path)
    return f"{path}:{line}: {what} cannot be run: {type(error).__name__}: {error}"


def _line(error: BaseException, path: Path) -> int:
    """Return the line of a file in which an error came up, the innermost one."""
    file = str(path.absolute())  # as Python calls it, however it was named
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
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
