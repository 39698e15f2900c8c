"""CUDA text compiled for the host: what runs kernels where there is no GPU.

:class:`HostRawModule` stands for ``cupy.RawModule``, so that everything above it, the wrapper included, is what a GPU
would see. It is stricter than CuPy, which passes on whatever bytes it is given: an argument of another type than the
kernel's, or a host array, is an error.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from heterps.device import raw, set_raw_loader
from heterps.device.fake import FakeArray
from heterps.device.raw import CudaModule

HERE = Path(__file__).parent
GPP = shutil.which("g++")
needs_gpp = pytest.mark.skipif(GPP is None, reason="g++ is not installed")
FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-pthread", "-Wall", "-Werror", "-Wno-unused-function", f"-I{HERE}"]
KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')
TYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "u64": "uint64",
    "unsigned char": "uint8",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    type: str
    pointer: bool
    dtype: np.dtype[Any]


@dataclass
class Orders:
    """How launches are played; tests turn these knobs."""

    seed: int = 0
    workers: int = 1
    fibers: bool = False
    first: int = 0
    launches: int = 0
    tape: BinaryIO | None = None


ORDERS = Orders()


def parameters(source: str) -> dict[str, list[Parameter]]:
    """Kernels of a source and what they take."""
    return {name: [_parameter(p) for p in text.split(",")] for name, text in KERNEL.findall(source)}


def _parameter(text: str) -> Parameter:
    type_ = text.strip().rsplit(None, 1)[0]
    pointer = type_.endswith("*")
    plain = type_.removesuffix("*").removeprefix("const ").strip()
    return Parameter(type_, pointer, np.dtype(TYPES[plain]))


def launchers(source: str) -> str:
    """C functions that play each kernel of a source, and one that picks by name."""
    made, cases = [], []
    for name, taken in parameters(source).items():
        values = ", ".join(f"*({p.type}*)a[{k}]" for k, p in enumerate(taken))
        made.append(
            f'extern "C" void launch_{name}(const Launch& how, void** a) {{ play(how, [&] {{ {name}({values}); }}); }}'
        )
        cases.append(f'    if (!strcmp(name, "{name}")) launch_{name}(how, a);')
    picker = "template <class Name>\nvoid dispatch(const Name& text, const Launch& how, void** a) {\n"
    return "\n".join([*made, picker + "    const char* name = text.c_str();", *cases, "}"])


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="heterps-host-kernels-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def build(text: str, *flags: str) -> Path:
    """Compile a C++ text once per content."""
    assert GPP is not None
    key = hashlib.sha256("\0".join([text, (HERE / "shim.h").read_text(), *flags]).encode()).hexdigest()[:20]
    made, source = _folder() / key, _folder() / f"{key}.cpp"
    if not made.exists():
        source.write_text(text)
        subprocess.run([GPP, *FLAGS, *flags, "-o", made, source], check=True)
    return made


def host_text(source: str) -> str:
    return f'#include "shim.h"\n{source}\n{launchers(source)}\n'


class HostRawModule:
    """``cupy.RawModule`` on the host."""

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        assert "--fmad=false" in options, "with fused multiply-adds bits are not those of NumPy"
        assert "-std=c++17" in options
        self._taken = parameters(code)
        self._library = ctypes.CDLL(str(build(host_text(code), "-shared", "-fPIC")))

    def get_function(self, name: str) -> HostKernel:
        return HostKernel(name, self._taken[name], getattr(self._library, f"launch_{name}"))


class HostKernel:
    def __init__(self, name: str, taken: list[Parameter], function: Any) -> None:
        self._name, self._taken, self._function = name, taken, function

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
        if len(args) != len(self._taken):
            raise TypeError(f"{self._name} takes {len(self._taken)} arguments, {len(args)} given")
        assert 0 < block[0] <= 1024, "blocks have at most 1,024 threads"
        assert 0 < grid[0] < 2**31, "grids have at least one and at most 2**31 - 1 blocks"
        ORDERS.launches += 1
        held = [_value(self._name, k, p, a) for k, (p, a) in enumerate(zip(self._taken, args, strict=True))]
        if ORDERS.tape is not None:
            _record(ORDERS.tape, self._name, grid[0], block[0], args)
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(h) for h in held))
        far = min(ORDERS.first, grid[0] - 1)
        how = (grid[0] - far, block[0], ORDERS.seed, ORDERS.workers, far, int(ORDERS.fibers))
        self._function((ctypes.c_uint * 6)(*how), pointers)


def _value(name: str, k: int, parameter: Parameter, arg: Any) -> Any:
    wanted = f"argument {k} of {name} is {parameter.type}"
    if parameter.pointer:
        if not isinstance(arg, FakeArray):
            raise TypeError(f"{wanted}, got {type(arg).__name__}")
        if arg.dtype != parameter.dtype:
            raise TypeError(f"{wanted}, got an array of {arg.dtype}")
        return ctypes.c_void_p(arg._data.ctypes.data)
    if not isinstance(arg, np.generic) or arg.dtype != parameter.dtype:
        raise TypeError(f"{wanted}, got {type(arg).__name__}: CuPy would pass on its bytes")
    return (ctypes.c_char * arg.dtype.itemsize).from_buffer_copy(arg.tobytes())


def _record(tape: BinaryIO, name: str, grid: int, block: int, args: tuple[Any, ...]) -> None:
    """Write a launch for :data:`replay.cpp`."""
    tape.write(struct.pack("<Q", len(name)) + name.encode() + struct.pack("<QQQ", grid, block, len(args)))
    for arg in args:
        if isinstance(arg, FakeArray):
            data = _extent(arg._data)
            tape.write(struct.pack("<QQ", arg._data.ctypes.data or 1, len(data)) + data)
        else:
            tape.write(struct.pack("<QQ", 0, arg.dtype.itemsize) + arg.tobytes())


def _extent(data: np.ndarray[Any, Any]) -> bytes:
    """All bytes from an array's first number to its last, those between its rows too."""
    if not data.size:
        return b""
    size = sum((n - 1) * s for n, s in zip(data.shape, data.strides, strict=True)) + data.itemsize
    return ctypes.string_at(data.ctypes.data, size)


def replay(source: str, tape: Path, *sanitizers: str) -> subprocess.CompletedProcess[str]:
    """Play recorded launches under sanitizers."""
    flags = ["-g", "-fno-sanitize-recover=all", *(f"-fsanitize={s}" for s in sanitizers)]
    program = build(host_text(source) + (HERE / "replay.cpp").read_text(), *flags)
    return subprocess.run([program, str(tape)], capture_output=True, text=True, check=False, timeout=120)


@contextmanager
def host_kernels(change: dict[str, str] | None = None, **orders: Any) -> Iterator[Orders]:
    """Give the strict device kernels that run on the host; ``change`` replaces sources by changed ones."""
    changed = change or {}
    before, loader = dict(vars(ORDERS)), raw._LOADERS.get("fake")
    vars(ORDERS).update(launches=0, **orders)
    set_raw_loader("fake", lambda source: CudaModule(changed.get(source, source), HostRawModule))
    try:
        yield ORDERS
    finally:
        set_raw_loader("fake", loader)
        vars(ORDERS).update(before)
