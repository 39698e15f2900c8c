"""Kernels written in CUDA, loaded from text beside the Python that launches them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from heterps.device.arrays import Namespace

__all__ = [
    "CUDA_OPTIONS",
    "CudaModule",
    "RawModule",
    "cuda_sources",
    "cuda_text",
    "raw_module",
    "runs_kernels",
    "set_raw_loader",
]

# No fused multiply-add: sums and products then have the bits that NumPy's have.
CUDA_OPTIONS = ("-std=c++17", "--fmad=false")
BLOCK = 256

_LOADERS: dict[str, Callable[[str], RawModule]] = {}


class RawModule(Protocol):
    """Compiled kernels of one source."""

    def launch(self, name: str, count: int, args: tuple[Any, ...]) -> None:
        """Run a kernel with at least ``count`` threads; numbers among the arguments are NumPy scalars."""


class CudaModule:
    """Kernels of one source through ``cupy.RawModule``.

    Parameters
    ----------
    source
        CUDA text.
    compiler
        What compiles it in place of ``cupy.RawModule``, called the same way.
    """

    def __init__(self, source: str, compiler: Callable[..., Any] | None = None) -> None:
        if compiler is None:
            import cupy

            compiler = cupy.RawModule
        self._module = compiler(code=source, options=CUDA_OPTIONS)

    def launch(self, name: str, count: int, args: tuple[Any, ...]) -> None:
        """Run a kernel with at least ``count`` threads, on the current stream."""
        if count:
            self._module.get_function(name)(((count + BLOCK - 1) // BLOCK,), (BLOCK,), args)


def set_raw_loader(device: str, load: Callable[[str], RawModule] | None) -> None:
    """Say how kernels reach a device (``"cupy"``, ``"fake"``): ``load(source)``. None takes the device's kernels away.

    The strict stand-in has none of its own; tests give it the kernels compiled for the host.
    """
    if load is None:
        _LOADERS.pop(device, None)
    else:
        _LOADERS[device] = load
    raw_module.cache_clear()


def runs_kernels(xp: Namespace) -> bool:
    """Whether kernels of ours reach the device of ``xp``."""
    return getattr(xp, "__name__", "") in _LOADERS


@cache
def raw_module(xp: Namespace, source: str) -> RawModule | None:
    """Return the kernels of a source on the device of ``xp``; None where it takes array functions only."""
    load = _LOADERS.get(getattr(xp, "__name__", ""))
    return None if load is None else load(source)


@cache
def cuda_text(path: Path) -> str:
    """Return the text of a ``.cu`` file."""
    return path.read_text()


def cuda_sources() -> list[Path]:
    """Return every ``.cu`` file of the package."""
    return sorted(Path(__file__).parents[1].rglob("*.cu"))


set_raw_loader("cupy", CudaModule)
