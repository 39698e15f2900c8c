"""A stand-in for device arrays that is stricter than the real thing.

It holds NumPy data and behaves as ``cupy.ndarray`` does where code written on a CPU usually breaks: no implicit
conversion to the host, no mixing of host and device arrays, reductions that stay 0-d arrays, only names, keywords and
methods that the installed cupy has (cupy imports without a driver and serves as the oracle). What cupy accepts but
punishes silently is an error here: out-of-range indices (cupy wraps them and corrupts a row), duplicate indices in an
assignment (undefined order), loops over a device array (one kernel per element), pickling. Copies, synchronisations and
kernels are counted in :data:`TRAFFIC`; :func:`watch_kernels` tells which memory each kernel touches.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np

__all__ = ["TRAFFIC", "FakeArray", "Traffic", "watch_kernels", "xp"]

try:
    import cupy as _oracle  # only asked what exists; nothing is run on it
except ImportError:
    _oracle = None


# Atomic operations exist for these only; cupy finds out when the kernel is launched, not by signature.
AT_UFUNCS = frozenset({"add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"})
AT_DTYPES = frozenset({"int32", "uint32", "uint64", "float16", "float32", "float64"})


@dataclass
class Traffic:
    """What crossed between host and device, and how often the host had to wait."""

    to_device: int = 0
    to_host: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    syncs: int = 0
    kernels: int = 0

    def reset(self) -> None:
        """Set every count to zero."""
        self.__init__()  # type: ignore[misc]


TRAFFIC = Traffic()
Watch = Callable[[list[np.ndarray[Any, Any]]], None]
_WATCHES: list[Watch] = []


@contextmanager
def watch_kernels(watch: Watch) -> Iterator[None]:
    """Have a function called with the memory of each kernel, read or written, and of each array that is made."""
    _WATCHES.append(watch)
    try:
        yield
    finally:
        _WATCHES.remove(watch)


def _touched(*values: Any, kernel: bool = True) -> None:
    """Count a kernel over these arrays."""
    TRAFFIC.kernels += kernel
    for watch in _WATCHES:
        watch([*_memory_of(values)])


def _memory_of(x: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(x, FakeArray):
        yield x._data
    elif isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, dict):
        yield from _memory_of(tuple(x.values()))
    elif isinstance(x, list | tuple):
        for each in x:
            yield from _memory_of(each)


def _is_view(result: Any, *sources: Any) -> bool:
    """Whether a result is memory of what it was made from: no kernel runs for that."""
    return isinstance(result, np.ndarray) and any(np.may_share_memory(result, a) for a in _memory_of(sources))


class FakeArray:
    """A device array in name: see the module's text for what it refuses."""

    __slots__ = ("_data",)
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data

    # what leaves the device, and at what price
    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("implicit conversion of a device array to NumPy; use to_host()")

    def get(
        self, stream: Any = None, order: str = "C", out: np.ndarray[Any, Any] | None = None, blocking: bool = True
    ) -> np.ndarray[Any, Any]:
        """Copy to the host."""
        TRAFFIC.to_host += 1
        TRAFFIC.bytes_to_host += self._data.nbytes
        TRAFFIC.syncs += blocking
        if out is None:
            return self._data.copy()
        out[...] = self._data
        return out

    def set(self, host: np.ndarray[Any, Any], stream: Any = None) -> None:
        """Copy from the host into this array."""
        TRAFFIC.to_device += 1
        TRAFFIC.bytes_to_device += host.nbytes
        self._data[...] = host

    def item(self) -> Any:
        """One number, after waiting for the device."""
        return self.get().item()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a host loop over a device array starts one kernel per element")

    def __reduce__(self) -> NoReturn:
        raise TypeError("pickling a device array hides a copy to the host; use to_host() first")

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"Fake{self._data!r}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (_oracle is not None and not hasattr(_oracle.ndarray, name)):
            raise AttributeError(f"cupy.ndarray has no attribute {name!r}")
        value = getattr(self._data, name)
        if callable(value):
            return lambda *a, **k: self._method(value, a, k)
        return _wrap(value) if isinstance(value, np.ndarray) else value

    def _method(self, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        result = method(*_unwrap(args), **_unwrap(kwargs))
        if not _is_view(result, self):
            _touched(self, args, kwargs, result)
        return _wrap(result)

    # indices
    def __getitem__(self, key: Any) -> FakeArray:
        found = np.asarray(self._data[self._checked(key, write=False)])
        if not _is_view(found, self):
            _touched(self, key, found)
        return FakeArray(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[self._checked(key, write=True)] = _unwrap(value)
        _touched(self, key, value)

    def _checked(self, key: Any, *, write: bool) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        axes = _axes(keys, self._data.ndim)
        checked = [self._check_index(k, axis) for k, axis in zip(keys, axes, strict=True)]
        arrays = [k for k in checked if isinstance(k, np.ndarray) and k.dtype != bool]
        if write and arrays:
            together = np.stack([a.ravel() for a in np.broadcast_arrays(*arrays)])
            if np.unique(together, axis=1).shape[1] != together.shape[1]:
                raise ValueError("duplicate indices in an assignment: the order of writes is undefined on a device")
        return tuple(checked) if isinstance(key, tuple) else checked[0]

    def _check_index(self, k: Any, axis: int) -> Any:
        if isinstance(k, np.ndarray | list):
            raise TypeError("a host array or list as index of a device array")
        if not isinstance(k, FakeArray):
            return k
        data = k._data
        if data.dtype.kind in "iu" and data.size:
            size = self._data.shape[axis]
            low, high = int(data.min()), int(data.max())
            if low < -size or high >= size:
                raise IndexError(f"index {low if low < -size else high} out of range for {size}: cupy would wrap it")
        return data

    # NumPy's protocols: functions and ufuncs called with a device array among the arguments
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _call(func.__module__.removeprefix("numpy").strip("."), func.__name__, func, args, kwargs)


def _axes(keys: tuple[Any, ...], ndim: int) -> list[int]:
    """Which axis each part of an index refers to."""
    used = [0 if k is None else getattr(k, "ndim", 1) if _is_mask(k) else 1 for k in keys]
    spare = ndim - sum(u for k, u in zip(keys, used, strict=True) if k is not Ellipsis)
    axes, at = [], 0
    for k, u in zip(keys, used, strict=True):
        axes.append(at)
        at += spare if k is Ellipsis else u
    return axes


def _is_mask(k: Any) -> bool:
    return isinstance(k, FakeArray) and k._data.dtype == bool


def _unwrap(x: Any) -> Any:
    """Strip the stand-in; a host array among the arguments is a mistake."""
    if isinstance(x, FakeArray):
        return x._data
    if isinstance(x, np.ndarray):
        raise TypeError("unsupported type numpy.ndarray: a host array mixed into a device operation")
    if isinstance(x, dict):
        return {k: _unwrap(v) for k, v in x.items()}
    return type(x)(_unwrap(v) for v in x) if type(x) in (list, tuple) else x


def _wrap(r: Any) -> Any:
    """Results stay on the device, 0-d ones too."""
    if isinstance(r, np.ndarray | np.generic):
        return FakeArray(np.asarray(r))
    return tuple(map(_wrap, r)) if isinstance(r, tuple) else r


def _call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    real = getattr(_oracle, ufunc.__name__, None) if _oracle is not None else ufunc
    if real is None or (method != "__call__" and not hasattr(real, method)):
        raise TypeError(f"cupy has no {ufunc.__name__}{'' if method == '__call__' else '.' + method}")
    out = kwargs.pop("out", None)
    outs = out if isinstance(out, tuple) else () if out is None else (out,)
    plain = {"out": _unwrap(outs)} if outs else {}
    if method == "at":
        if ufunc.__name__ not in AT_UFUNCS or inputs[0].dtype.name not in AT_DTYPES:
            raise TypeError(f"cupy has no {ufunc.__name__}.at for {inputs[0].dtype}")
        ufunc.at(inputs[0]._data, inputs[0]._checked(inputs[1], write=False), *_unwrap(inputs[2:]))
        _touched(inputs)
        return None
    result = getattr(ufunc, method)(*_unwrap(inputs), **_unwrap(kwargs), **plain)
    _touched(inputs, kwargs, outs, result)
    return outs[0] if len(outs) == 1 else _wrap(result)


@cache
def _signature(module: str, name: str) -> inspect.Signature | None:
    """Return cupy's signature; raise where cupy has no such function."""
    if _oracle is None:
        return None
    home = getattr(_oracle, module.split(".")[0], _oracle) if module else _oracle
    real = getattr(home, name, None)
    if real is None:
        raise TypeError(f"cupy has no function {module + '.' if module else ''}{name}")
    try:
        return inspect.signature(real)
    except (ValueError, TypeError):
        return None


def _call(module: str, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    module = module if module.split(".")[0] in ("linalg", "fft", "random") else ""
    signature = _signature(module, name)
    if signature is not None:
        signature.bind(*args, **kwargs)  # TypeError: cupy does not take this argument
    out = kwargs.get("out")
    result = func(*_unwrap(args), **_unwrap(kwargs))
    if out is not None or not _is_view(result, args, kwargs):
        _touched(args, kwargs, result, kernel=not name.startswith("empty"))
    return out if isinstance(out, FakeArray) else _wrap(result)


class _FakeStream:
    """A stream that has done everything as soon as it is asked; tests with streams that take their time are apart."""

    def __init__(self, non_blocking: bool = False) -> None:
        self.non_blocking = non_blocking

    def __enter__(self) -> _FakeStream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def wait_event(self, event: _FakeEvent) -> None:
        """Let later work wait, which costs the host nothing."""

    def synchronize(self) -> None:
        """Let the host wait."""
        TRAFFIC.syncs += 1


class _FakeEvent:
    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.disable_timing = disable_timing

    def record(self, stream: _FakeStream | None = None) -> None:
        """Mark what is queued so far."""

    def synchronize(self) -> None:
        """Let the host wait."""
        TRAFFIC.syncs += 1


class _FakeCuda:
    """The part of ``cupy.cuda`` that transfers use."""

    Stream, Event = _FakeStream, _FakeEvent
    _current = _FakeStream()

    def get_current_stream(self) -> _FakeStream:
        """Return the one stream that computes."""
        return self._current

    def alloc_pinned_memory(self, size: int) -> bytearray:
        """Return host memory."""
        return bytearray(size)


class _FakeNamespace:
    """``xp`` for device arrays in name."""

    ndarray = FakeArray
    cuda = _FakeCuda()
    __name__ = "fake"

    def asarray(self, x: Any, dtype: Any = None) -> FakeArray:
        """Copy to the device; an array that is there already is not copied."""
        if isinstance(x, FakeArray):
            return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)
        data = np.array(x, dtype=dtype)
        TRAFFIC.to_device += 1
        TRAFFIC.bytes_to_device += data.nbytes
        return FakeArray(data)

    array = asarray

    def asnumpy(self, x: FakeArray) -> np.ndarray[Any, Any]:
        """Copy to the host."""
        return x.get()

    def __getattr__(self, name: str) -> Any:
        if _oracle is not None and not hasattr(_oracle, name):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        value = getattr(np, name)
        if isinstance(value, np.ufunc):
            return _Ufunc(value)
        if callable(value) and not isinstance(value, type):
            return lambda *a, **k: _call("", name, value, a, k)
        return value


class _Ufunc:
    """A ufunc of the namespace: called like NumPy's, with its methods."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return _call_ufunc(self._ufunc, "__call__", inputs, kwargs)

    def __getattr__(self, method: str) -> Any:
        return lambda *inputs, **kwargs: _call_ufunc(self._ufunc, method, inputs, kwargs)


def _binary(name: str) -> None:
    for prefix in ("", "r"):
        method = f"__{prefix}{name}__"
        if hasattr(np.ndarray, method):
            setattr(FakeArray, method, lambda self, other, m=method: self._method(getattr(self._data, m), (other,), {}))
    method = f"__i{name}__"
    if hasattr(np.ndarray, method):

        def inplace(self: FakeArray, other: Any, m: str = method) -> FakeArray:
            getattr(self._data, m)(_unwrap(other))
            _touched(self, other)
            return self

        setattr(FakeArray, method, inplace)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    _binary(_name)
for _name in ("lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne"):
    _binary(_name)
for _name in ("neg", "abs", "invert"):
    setattr(FakeArray, f"__{_name}__", lambda self, m=f"__{_name}__": self._method(getattr(self._data, m), (), {}))

xp = _FakeNamespace()
