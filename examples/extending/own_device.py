"""A device of your own: ``metered``, which computes with NumPy and counts what an accelerator would be asked for.

A device is an array library under a name: an object with NumPy's functions, a type ``ndarray`` for its arrays, and
``asarray`` and ``asnumpy`` to go there and back. One that has all that, as CuPy does, is registered by a single line;
this file is what it takes to make one out of something else.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from heterps.device import register_namespace

CALLS = Counter()  # how often each function was called, and arrays were copied there and back


class Metered(NDArrayOperatorsMixin):
    """An array of the device. It is no ``np.ndarray``: nothing of it gets to the host unless it is asked for."""

    __hash__ = None

    def __init__(self, data):
        self.data = data

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **rest):
        """Operators (``a * b``, ``a += b``) come here, and functions of NumPy that are given an array of ours."""
        return called(ufunc if method == "__call__" else getattr(ufunc, method), inputs, {"out": out, **rest})

    def __getattr__(self, name):
        """Give attributes (``shape``, ``dtype``) and methods (``reshape``, ``sum``) of what is inside."""
        if name.startswith("__") or name == "data":
            raise AttributeError(name)
        found = getattr(self.data, name)
        return (lambda *args, **rest: called(found, args, rest)) if callable(found) else there(found)

    def __getitem__(self, key):
        return Metered(np.asarray(self.data[inside(key)]))

    def __setitem__(self, key, value):
        CALLS["copy"] += 1
        self.data[inside(key)] = inside(value)

    def __len__(self):
        return len(self.data)

    def __float__(self):
        return float(library.asnumpy(self))


class Library:
    """NumPy's functions for such arrays."""

    ndarray = Metered

    def __getattr__(self, name):
        found = getattr(np, name)
        return Function(found) if callable(found) and not isinstance(found, type) else found

    def asarray(self, x, dtype=None):
        """Copy to the device what is not there."""
        if isinstance(x, Metered) and dtype in (None, x.dtype):
            return x
        CALLS["to device"] += not isinstance(x, Metered)
        return Metered(np.array(inside(x), dtype))

    def asnumpy(self, x):
        """Copy to the host."""
        CALLS["to host"] += 1
        return np.array(x.data)


class Function:
    """One function of the library, with what hangs on it (``add.at``)."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **rest):
        """Compute on the device."""
        return called(self.function, args, rest)

    def __getattr__(self, name):
        return Function(getattr(self.function, name))


def called(function, args, rest):
    """Call what is inside with what is inside; the result stays on the device."""
    CALLS[function.__name__] += 1
    given = {name: value for name, value in rest.items() if value is not None}
    result = function(*inside(args), **inside(given))
    out = given.get("out")
    return there(result) if out is None else out[0] if isinstance(out, tuple) else out


def inside(x):
    if isinstance(x, dict):
        return {name: inside(value) for name, value in x.items()}
    if type(x) in (tuple, list):
        return type(x)(map(inside, x))
    return x.data if isinstance(x, Metered) else x


def there(x):
    if isinstance(x, tuple):
        return tuple(map(there, x)) if any(isinstance(each, np.ndarray) for each in x) else x
    return Metered(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


library = Library()
register_namespace("metered", lambda: library, stand_in=True)
