"""Modules that only the program at hand has, and how values that use them reach other processes.

A file that lies beside the program, in the folder it was started from, or that was named on the command line is not
installed anywhere: its classes and functions travel as what they are, as those of the program itself do. Anything else
travels by name, and must be installed where it goes.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pickle
import sys
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["NotPythonError", "carried", "home_of", "import_file", "is_own", "may_replace", "sent_with_code"]


class NotPythonError(ImportError):
    """A file cannot be one of Python."""


_HERE = uuid.uuid4().hex  # this process
_NUMBERS = itertools.count()
_SENT: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_READ: set[str] = set()  # names of modules that import_file made


def home_of(thing: Any) -> str:
    """Return the name of the module in which a class or function, or the class of a value, was defined."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def may_replace(new: Any, old: Any) -> bool:
    """Whether a part may be registered in place of another: a cell or file that is run again may, nobody else."""
    return new is old or (_origin(new) == _origin(old) and not home_of(old).startswith("heterps."))


def _origin(thing: Any) -> str:
    """Return the file of a part: one that was imported by a program and named on its command line is the same one."""
    file = getattr(sys.modules.get(home_of(thing)), "__file__", None)
    return os.path.abspath(file) if file else home_of(thing)


def import_file(path: Path, name: str) -> ModuleType:
    """Run a Python file as a module, and let it import what lies beside it; run anew each time.

    Raises
    ------
    NotPythonError
        If it is no Python file.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotPythonError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    _READ.add(name)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def is_own(name: str) -> bool:
    """Whether a module is one that no other process can be expected to have; a package never is: it is installed."""
    if name == "__main__" or name in _READ:
        return True
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None or "." in name or hasattr(module, "__path__"):
        return False
    return os.path.dirname(os.path.abspath(file)) in _folders()


def _folders() -> set[str]:
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    return {os.getcwd(), *([os.path.dirname(os.path.abspath(program))] if program else [])}


def sent_with_code(value: Any, state: dict[str, Any]) -> tuple[Any, ...]:
    """Return what ``__reduce__`` of a value that never changes returns, for the code of own modules to go along.

    In the process that sent it, it arrives as what it is: code that was unpickled beside its own module would have
    that module's names a second time, and put its methods into the classes that are there.
    """
    number = next(_NUMBERS)
    _SENT[number] = value
    return _arrived, (_HERE, number, carried((type(value), state)))


def _arrived(process: str, number: int, body: bytes) -> Any:
    if process == _HERE and number in _SENT:
        return _SENT[number]
    kind, state = pickle.loads(body)
    made = object.__new__(kind)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        vars(made).update(state)
    return made


def carried(value: Any) -> bytes:
    """Pickle a value together with the code of all modules that only this program has."""
    import cloudpickle

    for module in _own_modules():
        cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(value))


def _own_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if name != "__main__" and isinstance(module, ModuleType) and is_own(name):
            yield module
