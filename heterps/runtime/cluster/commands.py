"""The exact ``dask scheduler`` and ``dask worker`` commands of a cluster, as values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from heterps.runtime.cluster.certificates import Certificates
from heterps.runtime.cluster.core_share import Threads, thread_environment
from heterps.runtime.cluster.resources import resource_of
from heterps.runtime.wire.addresses import parse_address

__all__ = ["Command", "join_hint", "scheduler_command", "scheduler_hint", "worker_command"]

_LOOPBACK = "127.0.0.1"
_PRELOAD = "heterps.runtime.preload"
_DEATH_TIMEOUT = "300s"  # a worker would otherwise wait for ever for a scheduler that is gone


@dataclass(frozen=True)
class Command:
    """A program to start: its name in logs and messages, its words, and what is added to its environment."""

    name: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a line that a shell understands."""
        settings = [f"{key}={shlex.quote(value)}" for key, value in self.environment.items()]
        return " ".join([*settings, shlex.join(self.words)])


def scheduler_command(
    host: str,
    port: int,
    certificates: Certificates | None = None,
    *,
    dashboard: int | None = None,
    file: str | None = None,
) -> Command:
    """Return the command of a scheduler.

    Parameters
    ----------
    host, port
        Where it listens; port 0 takes a free one, to be read from ``file``.
    certificates
        With them it speaks TLS and nothing else.
    dashboard
        Port of the dashboard; on loopback always, because the dashboard asks nobody who they are.
    file
        Where it writes its address once it listens.
    """
    words = ["dask", "scheduler", "--host", _bracketed(host), "--port", str(port)]
    words += _protocol(certificates, "scheduler")
    # Without a dashboard the scheduler still serves /health: say where, or it takes every interface.
    words += ["--dashboard-address", f"{_LOOPBACK}:{dashboard or 0}"]
    words += [] if dashboard is not None else ["--no-dashboard"]
    words += ["--scheduler-file", file] if file else []
    words += ["--preload", _PRELOAD]
    return Command("scheduler", tuple(words), _require_tls(certificates))


def worker_command(
    pool: str,
    name: str,
    host: str,
    threads: Threads,
    certificates: Certificates | None = None,
    *,
    scheduler: str | None = None,
    file: str | None = None,
    memory_bytes: int | None = None,
    nanny: bool = False,
    folder: str | None = None,
    gpu: str | None = None,
) -> Command:
    """Return the command of one worker of a pool.

    Parameters
    ----------
    pool, name
        The pool it declares itself part of, and its name in the cluster.
    host
        Address it listens on.
    threads
        Its task threads and BLAS threads.
    certificates
        With them it speaks TLS and nothing else.
    scheduler, file
        Address of the scheduler, or the file in which the scheduler writes it.
    memory_bytes
        Its memory limit; None: by its share of threads.
    nanny
        Whether a nanny restarts it; never where a launcher does.
    folder
        Where it keeps its files.
    gpu
        Number, by bus address, or UUID of the one GPU it sees.
    """
    words = ["dask", "worker", *([scheduler] if scheduler else []), "--name", name, "--host", _bracketed(host)]
    words += [*_protocol(certificates, "worker"), "--nthreads", str(threads.tasks)]
    words += ["--resources", f"{resource_of(pool)}=1", "--nanny" if nanny else "--no-nanny"]
    words += ["--death-timeout", _DEATH_TIMEOUT]
    words += ["--memory-limit", str(memory_bytes)] if memory_bytes is not None else []
    words += ["--scheduler-file", file] if file else []
    words += ["--local-directory", folder] if folder else []
    words += ["--no-dashboard", "--dashboard-address", f"{_LOOPBACK}:0", "--preload", _PRELOAD]
    words += ["--preload-nanny", _PRELOAD] if nanny else []
    environment = {**_require_tls(certificates), **_threads(threads, nanny)}
    environment |= {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return Command(name, tuple(words), environment)


def join_hint(resource: str) -> str:
    """Return the command that adds a worker to a pool, to be filled in: it is closed to strangers on every machine."""
    return (
        f"dask worker SCHEDULER --host ADDRESS --dashboard-address {_LOOPBACK}:0 --resources {resource}=1 "
        f"--preload {_PRELOAD}"
    )


def scheduler_hint() -> str:
    """Return the command that starts a scheduler, to be filled in."""
    return f"dask scheduler --host ADDRESS --dashboard-address {_LOOPBACK}:8787 --preload {_PRELOAD}"


def _bracketed(host: str) -> str:
    return parse_address(host).bracketed


def _threads(threads: Threads, nanny: bool) -> Mapping[str, str]:
    # A nanny overwrites OMP_NUM_THREADS and its like, but passes our own setting on.
    if nanny:
        return {"DASK_HETERPS__WORKER__BLAS_THREADS": str(threads.blas)}
    return thread_environment(threads.blas)


def _protocol(certificates: Certificates | None, role: str) -> list[str]:
    return ["--protocol", "tls", *certificates.options(role)] if certificates else ["--protocol", "tcp"]


def _require_tls(certificates: Certificates | None) -> Mapping[str, str]:
    return {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true"} if certificates else {}
