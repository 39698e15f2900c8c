"""What `heterps doctor` looks at, all of it through :class:`Surroundings`, so that a test can change it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

from heterps.cli._trials import cache_trial, stage_trial, table_trial
from heterps.device import diagnosis
from heterps.device.arrays import Array, Namespace, know_arrays, to_device, to_host
from heterps.device.diagnosis import AbsentError, AilmentError
from heterps.errors import HardwareError

__all__ = ["EXAMINATIONS", "Finding", "Surroundings", "examine"]

FEW_FILES, SCARCE_DISK = 4096, 2 << 30
OURS = ("dask", "distributed", "heterps")


@dataclass(frozen=True)
class Finding:
    """The outcome of one examination.

    Attributes
    ----------
    status
        "ok", "failed", "absent" (not there, not needed), or "skipped" (for want of something that failed).
    remedy
        The sentence that mends it; empty if all is well.
    """

    name: str
    status: Literal["ok", "failed", "absent", "skipped"]
    text: str
    remedy: str = ""


def _listening() -> list[tuple[str, int, str]]:
    """Return address, port and command of what Dask and HeterPS listen with on this machine."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            if any(word in command for word in OURS):
                ask = (
                    process.net_connections if hasattr(process, "net_connections") else process.connections
                )  # psutil < 6
                found += [(*c.laddr[:2], command) for c in ask("inet") if c.status == "LISTEN"]
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue  # somebody else's, or gone meanwhile
    return found


def _open_files() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _blas() -> list[dict[str, Any]]:
    from threadpoolctl import threadpool_info

    np.dot(np.ones((2, 2)), np.ones((2, 2)))  # so that the library is loaded
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def _kept_loops() -> Path:
    """Return where numba would keep a loop."""
    from heterps.kernels.ops.pointwise import sum_columns

    return Path(sum_columns.kept.cache_path)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Surroundings:
    """The machine as the examinations see it; each field can be replaced."""

    has_driver: Callable[[], bool] = diagnosis.has_driver
    cupy: Callable[[bool], Any] = diagnosis.load_cupy
    requirements: Callable[[], list[str]] = lambda: metadata.requires("heterps") or []
    version: Callable[[str], str] = metadata.version
    blas: Callable[[], list[dict[str, Any]]] = _blas
    cores: Callable[[], int] = lambda: len(os.sched_getaffinity(0))
    numba_cache: Callable[[], Path] = _kept_loops
    open_files: Callable[[], int] = _open_files
    free_disk: Callable[[str], int] = lambda folder: shutil.disk_usage(folder).free
    listening: Callable[[], list[tuple[str, int, str]]] = _listening


def versions(here: Surroundings) -> str:
    """Every package that HeterPS needs, in a version that will do."""
    from packaging.requirements import Requirement

    found = [f"Python {sys.version.split()[0]}"]
    for text in here.requirements():
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            version = here.version(wanted.name)
        except metadata.PackageNotFoundError:
            raise AilmentError(f"{wanted.name} is not installed", f"pip install '{text}'") from None
        if not wanted.specifier.contains(version, prereleases=True):
            raise AilmentError(f"{wanted.name} {version} is too old", f"pip install --upgrade '{text}'")
        found.append(f"{wanted.name} {version}")
    return ", ".join(found)


def blas_threads(here: Surroundings) -> str:
    """NumPy's matrix library, and threads within the cores that there are."""
    pools, cores = here.blas(), here.cores()
    if not pools:
        raise AilmentError("NumPy's matrix library cannot be told", "install NumPy from a wheel: pip install numpy")
    for pool in pools:
        if pool["num_threads"] > cores:
            raise AilmentError(
                f"{pool['internal_api']} uses {pool['num_threads']} threads on {cores} cores",
                f"set OPENBLAS_NUM_THREADS={cores} (MKL_NUM_THREADS, OMP_NUM_THREADS) before starting workers",
            )
    return ", ".join(f"{p['internal_api']} {p.get('version') or ''}, {p['num_threads']} threads" for p in pools)


def numba_cache(here: Surroundings) -> str:
    """Where compiled loops are kept, and that they can be."""
    folder = here.numba_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise AilmentError(
            f"compiled loops cannot be kept in {folder} ({error.strerror}), so every start compiles for a minute",
            "set NUMBA_CACHE_DIR to a folder that can be written, then run: heterps warm",
        ) from error
    return f"{folder} can be written, {len(list(folder.glob('*.nbi')))} loops in it"


def open_files(here: Surroundings) -> str:
    """Open files and sockets that a process may have."""
    limit = here.open_files()
    if 0 <= limit < FEW_FILES:
        raise AilmentError(f"a process may open {limit} files and sockets", "run: ulimit -n 65536 (or set LimitNOFILE)")
    return "no limit" if limit < 0 else f"{limit} a process"


def disk(here: Surroundings) -> str:
    """Room for checkpoints and spilled rows."""
    found = []
    for folder in dict.fromkeys((str(Path.cwd()), tempfile.gettempdir())):
        free = here.free_disk(folder)
        if free < SCARCE_DISK:
            raise AilmentError(
                f"{folder} has {free / 2**30:.1f} GiB free", "free some, or set TMPDIR and --checkpoint to another disk"
            )
        found.append(f"{free / 2**30:.0f} GiB free in {folder}")
    return ", ".join(found)


def network(here: Surroundings) -> str:
    """Whether strangers can reach what listens here."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as error:
            raise AilmentError(
                f"nothing can listen on 127.0.0.1 ({error.strerror})", "bring the loopback up"
            ) from error
    every = here.listening()
    for address, port, command in every:
        if address in ("0.0.0.0", "::"):
            raise AilmentError(
                f"{command[:60]!r} listens on every interface at port {port}, where anyone can run code",
                "start it with --host 127.0.0.1 --dashboard-address 127.0.0.1:0, or with TLS",
            )
    return f"{len(every)} listeners of Dask and HeterPS, none on every interface"


# With a GPU


def _gpu(here: Surroundings) -> Any:
    return know_arrays(here.cupy(here.has_driver()))


def gpu(here: Surroundings) -> str:
    """Driver, runtime and devices."""
    return diagnosis.driver(_gpu(here), here.has_driver())


def cublas(here: Surroundings) -> str:
    """Matrix products."""
    return diagnosis.blas(_gpu(here))


def nvrtc(here: Surroundings) -> str:
    """The compiler of CUDA text."""
    return diagnosis.nvrtc(_gpu(here))


def copies(here: Surroundings) -> str:
    """Rates of copies."""
    return diagnosis.copies(_gpu(here))


def kernels(here: Surroundings) -> str:
    """Every CUDA kernel against NumPy."""
    from heterps.kernels.checks import CHECKS as OF_KERNELS
    from heterps.tables.on_device.checks import CHECKS as OF_TABLES

    for name, check in {**OF_KERNELS, **OF_TABLES}.items():
        try:
            check(_gpu(here))
        except HardwareError as error:
            raise AilmentError(f"{name}: {error}", "update driver and CuPy, and report it with this line") from error
    return f"{', '.join((*OF_KERNELS, *OF_TABLES))}: the numbers of NumPy"


def model(here: Surroundings) -> str:
    """One batch of a small model, forward and backward, against the CPU."""
    (loss, gradient), (got_loss, got) = (_train(xp) for xp in (np, _gpu(here)))
    worst = float(np.abs(got - gradient).max())
    if not (worst < 1e-4 and abs(loss - got_loss) < 1e-4):
        raise AilmentError(
            f"a small model has the loss {got_loss:g} instead of {loss:g}, gradients off by {worst:g}",
            "update driver and CuPy, and report it with this line",
        )
    return f"a small model has the loss and the gradients of the CPU (within {worst:.1g})"


def _train(xp: Namespace) -> tuple[float, Any]:
    from heterps.graph import Graph, ops
    from heterps.kernels import Program

    x, y = ops.input("x", shape=(5,)), ops.input("y", shape=())
    hidden = ops.relu(ops.dense(x, 7, name="a"))
    program = Program(Graph(loss=ops.logloss(ops.dense(hidden, 1, name="b"), y)), batch_size=16, xp=xp)
    rng = np.random.default_rng(0)
    flat: Array = to_device(rng.standard_normal(program.layout.size).astype(np.float32), xp)
    feeds = {"x": rng.standard_normal((16, 5)).astype(np.float32), "y": (rng.random(16) < 0.5).astype(np.float32)}
    program.forward(feeds, flat)
    return float(program.loss), to_host(program.backward().dense).copy()


def _trial(train: Callable[[Namespace], str]) -> Callable[[Surroundings], str]:
    """Return an examination that trains something there."""

    def look(here: Surroundings) -> str:
        try:
            return train(_gpu(here))
        except HardwareError as error:
            raise AilmentError(str(error), "update driver and CuPy, and report it with this line") from error

    return look


#: Name, what is done, and which others have to be well first.
EXAMINATIONS: tuple[tuple[str, Callable[[Surroundings], str], tuple[str, ...]], ...] = (
    ("versions", versions, ()),
    ("BLAS threads", blas_threads, ()),
    ("numba cache", numba_cache, ()),
    ("open files", open_files, ()),
    ("disk", disk, ()),
    ("network", network, ()),
    ("NVRTC", nvrtc, ()),
    ("GPU", gpu, ()),
    ("cuBLAS", cublas, ("GPU",)),
    ("copies", copies, ("GPU",)),
    ("kernels", kernels, ("GPU", "NVRTC")),
    ("model", model, ("GPU", "NVRTC", "cuBLAS")),
    ("stage", _trial(stage_trial), ("GPU", "NVRTC", "cuBLAS")),
    ("table", _trial(table_trial), ("GPU", "NVRTC")),
    ("cache", _trial(cache_trial), ("GPU", "NVRTC")),
)


def examine(here: Surroundings, *, want_gpu: bool = False) -> Iterator[Finding]:
    """Go through all examinations; what depends on something that is not well is skipped."""
    well: dict[str, bool] = {}
    for name, look, needs in EXAMINATIONS:
        lacking = [need for need in needs if not well[need]]
        finding = Finding(name, "skipped", f"needs {lacking[0]}") if lacking else _look(name, look, here, want_gpu)
        well[name] = finding.status == "ok"
        yield finding


def _look(name: str, look: Callable[[Surroundings], str], here: Surroundings, want_gpu: bool) -> Finding:
    try:
        return Finding(name, "ok", look(here))
    except AbsentError as error:
        return Finding(name, "failed" if want_gpu else "absent", error.problem, error.remedy)
    except AilmentError as error:
        return Finding(name, "failed", error.problem, error.remedy)
    except Exception as error:  # a doctor reports what it does not understand
        remedy = "report this with the line above; heterps does not know this trouble yet"
        return Finding(name, "failed", f"{type(error).__name__}: {error}", remedy)
