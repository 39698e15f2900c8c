"""dpnp as a device: an array library of others that computes beside the host, here on this machine's cores."""

from __future__ import annotations

from typing import Any

import dpnp
import numpy as np

from heterps.device import register_namespace


class Dpnp:
    """dpnp with the few of its habits that CuPy does not share ironed out; everything else is as it is."""

    __name__ = "dpnp"
    ndarray = dpnp.ndarray

    def __getattr__(self, name: str) -> Any:
        found = getattr(dpnp, name)
        if name in ("add", "maximum"):
            return _Ufunc(found, getattr(np, name))
        return _typed(found) if name in ("empty", "zeros", "ones") else found

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        if isinstance(x, dpnp.ndarray):
            return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)
        return dpnp.asarray(x, dtype=dtype)

    array = asarray


class _Ufunc:
    """A function that takes its input as ``out``, and with ``at`` (on the host, by explicit copies)."""

    def __init__(self, there: Any, here: np.ufunc) -> None:
        self._there, self._here = there, here

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = self._there(*args, **kwargs)
        if out is None:
            return result
        out[...] = result
        return out

    def at(self, a: Any, where: Any, values: Any) -> None:
        host = dpnp.asnumpy(a)
        self._here.at(host, _host(where), _host(values))
        a[...] = dpnp.asarray(host)


def _host(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_host, x))
    return dpnp.asnumpy(x) if isinstance(x, dpnp.ndarray) else x


def _typed(make: Any) -> Any:
    """dtype may come second, without its name."""
    return lambda shape, dtype=None, **rest: make(shape, dtype=dtype, **rest)


register_namespace("dpnp", Dpnp, stand_in=True)
