"""A key of everything that becomes part of a compiled loop: its code, its options, and what it calls, to the end.

A constant counts by its value, a function of ours by its code, one of NumPy or numba by its name (numba's cache knows
the versions). What is of another kind and ours counts by the whole file it stands in.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["loop_key"]

_PLAIN = (int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
_DIGITS = 16  # of the key: 64 bits, for the few forms that one loop ever has


def loop_key(loop: Any) -> str:
    """Return the key of a loop that numba compiled, or will compile."""
    digest, known = hashlib.sha256(), dict[int, int]()  # numbers of what was described already, by identity
    for text in _walk(loop, known):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:_DIGITS]


def _walk(one: Any, known: dict[int, int]) -> Iterator[str]:
    """Describe one thing, then all that it uses; what comes again is told by its number."""
    if id(one) in known:
        yield f"again {known[id(one)]}"
        return
    text, used = _described(one)
    if not isinstance(one, _PLAIN):
        known[id(one)] = len(known)
    yield f"{text} uses {len(used)}"
    for other in used:
        yield from _walk(other, known)


def _described(one: Any) -> tuple[str, list[Any]]:
    """Say what one thing is that a loop uses, and what it uses in turn."""
    if isinstance(one, FunctionType) and _is_ours(one):
        return _of_function(one)
    if hasattr(one, "py_func"):  # a loop
        options = sorted(f"{name}={_ordered(value)}" for name, value in one.targetoptions.items())
        return f"loop {options}", [one.py_func]
    if hasattr(one, "_defn"):  # an intrinsic: a function that writes LLVM
        return f"intrinsic {one._name}", [one._defn]
    if isinstance(one, np.ndarray):
        return f"array {one.dtype} {one.shape} {hashlib.sha256(one.tobytes()).hexdigest()}", []
    if isinstance(one, _PLAIN):
        return f"{type(one).__name__} {one!r}", []
    if isinstance(one, tuple | list):
        return f"{type(one).__name__} of {len(one)}", list(one)
    name = f"{getattr(one, '__module__', '')}.{getattr(one, '__qualname__', type(one).__qualname__)}"
    return f"{name} {_text_of(one)}", []


def _is_ours(one: Any) -> bool:
    """Say whether somebody may change it without a new version of numba or NumPy."""
    module = str(getattr(one, "__module__", None) or "")
    return module.split(".")[0] not in ("numba", "numpy", "llvmlite", "math", "builtins", "operator")


def _text_of(one: Any) -> str:
    """Return the whole file of a module or class, "" where it is not ours to change."""
    if isinstance(one, ModuleType):
        return inspect.getsource(one) if one.__name__.startswith("heterps") else one.__name__
    module = inspect.getmodule(one)
    return "" if module is None or not module.__name__.startswith("heterps") else inspect.getsource(module)


def _of_function(function: FunctionType) -> tuple[str, list[Any]]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    text = " ".join(_text_of_code(code) for code in _codes(function.__code__))
    return f"{function.__qualname__} {text}", [*(function.__defaults__ or ()), *cells, *used]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _text_of_code(code: CodeType) -> str:
    constants = [_ordered(one) for one in code.co_consts if not isinstance(one, CodeType)]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {constants}"


def _ordered(constant: Any) -> str:
    """Return a constant as text that is the same in every process; sets have no order of their own."""
    return repr(sorted(map(repr, constant))) if isinstance(constant, set | frozenset) else repr(constant)
