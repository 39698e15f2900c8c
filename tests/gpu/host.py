"""CUDA text compiled for the host: what runs ``rows.cu`` where there is no GPU."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from heterps.device.fake import FakeArray

HERE = Path(__file__).parent
GPP = shutil.which("g++")
FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-pthread", "-Wall", "-Werror", "-Wno-unused-function", f"-I{HERE}"]
KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')
C_TYPES = {np.dtype("int32"): ctypes.c_int, np.dtype("int64"): ctypes.c_longlong}


def launchers(source: str) -> str:
    """C functions that play each kernel of a source."""
    made = []
    for name, parameters in KERNEL.findall(source):
        names = ", ".join(p.split()[-1].lstrip("*") for p in parameters.split(","))
        made.append(
            f'extern "C" void launch_{name}(unsigned grid, unsigned block, unsigned seed, unsigned workers, '
            f"{parameters}) {{ play(grid, block, seed, workers, [&] {{ {name}({names}); }}); }}"
        )
    return "\n".join(made)


class HostModule:
    """Kernels of a source as a shared library; threads run in an order drawn from ``seed``."""

    def __init__(self, source: str, folder: Path, *, seed: int = 0, workers: int = 1, block: int = 32) -> None:
        assert GPP is not None
        text, library = folder / "kernels.cpp", folder / "kernels.so"
        text.write_text(f'#include "shim.h"\n{source}\n{launchers(source)}\n')
        subprocess.run([GPP, *FLAGS, "-shared", "-fPIC", "-o", library, text], check=True)
        self._library = ctypes.CDLL(str(library))
        self.seed, self.workers, self.block, self.launches = seed, workers, block, 0

    def launch(self, name: str, count: int, args: tuple[Any, ...]) -> None:
        """Run a kernel."""
        self.launches += 1
        if count:
            head = ((count + self.block - 1) // self.block, self.block, self.seed, self.workers)
            getattr(self._library, f"launch_{name}")(*map(ctypes.c_uint, head), *map(_c_value, args))


def _c_value(arg: Any) -> Any:
    if isinstance(arg, FakeArray):
        return ctypes.c_void_p(arg._data.ctypes.data)
    return C_TYPES[arg.dtype](int(arg))


def build_and_run(source: Path, folder: Path, *sanitizers: str) -> subprocess.CompletedProcess[str]:
    """Build ``sanitize.cpp`` with sanitizers around a source and run it."""
    assert GPP is not None
    program = folder / "sanitize"
    flags = [*FLAGS, "-g", "-fno-sanitize-recover=all", *(f"-fsanitize={s}" for s in sanitizers)]
    subprocess.run([GPP, *flags, f'-DSOURCE="{source}"', "-o", program, HERE / "sanitize.cpp"], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=False)
