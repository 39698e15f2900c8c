"""Start a scheduler and pools of workers on this machine, run a script against them, end with its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from distributed import Security, rpc
from distributed.system import MEMORY_LIMIT

from heterps.errors import ClusterError
from heterps.fields import Natural, check_fields
from heterps.runtime.cluster.certificates import Certificates, open_certificates
from heterps.runtime.cluster.children import Child, Children, adopting
from heterps.runtime.cluster.commands import Command, scheduler_command, worker_command
from heterps.runtime.cluster.core_share import Threads, allot, available_cores
from heterps.runtime.cluster.gpu_share import deal_gpus, gpus_here
from heterps.runtime.cluster.security import listening_host
from heterps.runtime.cluster.signals import Signals, terminal_told_us
from heterps.runtime.config import Settings, settings
from heterps.runtime.wire.addresses import parse_address
from heterps.writing import check_folder

__all__ = ["Launch", "launch_cluster"]

_TICK_S = 0.1


@dataclass(frozen=True)
class Launch:
    """What to start.

    Parameters
    ----------
    pools
        Number of workers by pool.
    script
        Words that come after ``python``; none: the cluster stays up until it is interrupted.
    logs
        Folder for one log file per process.
    host, port
        Where scheduler and workers listen; port 0 takes a free one.
    tls
        Whether to speak TLS.
    certs
        Folder of the certificates, made where there are none; None: made for this launch and thrown away.
    dashboard
        Port of Dask's dashboard on loopback; None: no dashboard.
    max_restarts
        How often one process may be restarted; None: as Dask's config says.
    """

    pools: Mapping[str, Natural]
    script: tuple[str, ...] = ()
    logs: pathlib.Path = pathlib.Path("logs")
    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = False
    certs: pathlib.Path | None = None
    dashboard: int | None = None
    max_restarts: Natural | None = None

    def __post_init__(self) -> None:
        check_fields(self, ClusterError, "launch")


class _Stopped(BaseException):
    """Someone asked the launcher to end; not an error, so nothing below may catch it."""

    def __init__(self, number: int) -> None:
        self.number = number


Place = Callable[[str], tuple[str, tuple[str, ...]]]


def launch_cluster(launch: Launch, tell: Callable[[str], None] = print, place: Place | None = None) -> int:
    """Run a launch to its end and return the exit code: the script's, or 128 + n after signal n.

    Parameters
    ----------
    launch
        What to start.
    tell
        Takes lines for the user.
    place
        ``place(name)`` is where a worker listens, and the words before its command that start it there; None: all are
        where the scheduler is.

    Raises
    ------
    ClusterError
        When the address is open to others without TLS, or a process keeps dying; nothing is left running.
    """
    launch = replace(launch, host=listening_host(launch.host, tls=launch.tls).host)
    if not any(launch.pools.values()):
        raise ClusterError("a cluster without workers: ask for at least one")
    found = settings()
    if launch.max_restarts is not None:
        found = replace(found, max_restarts=launch.max_restarts)
    check_folder(launch.logs)
    launch.logs.mkdir(parents=True, exist_ok=True)
    place = place or (lambda name: (launch.host, ()))
    with Signals() as signals, tempfile.TemporaryDirectory(prefix="heterps-") as folder, adopting():
        return _run(launch, found, signals, pathlib.Path(folder), tell, place)


def _run(
    launch: Launch,
    found: Settings,
    signals: Signals,
    folder: pathlib.Path,
    tell: Callable[[str], None],
    place: Place,
) -> int:
    with Children(found.max_restarts, found.grace_s) as children:
        cluster = _Cluster(launch, found, signals, children, folder, tell, place)
        try:
            return cluster.run()
        except _Stopped as stopped:
            cluster.interrupt_script(stopped)
            return 128 + stopped.number
        finally:
            cluster.stop()


@dataclass
class _Cluster:
    """The processes of one launch."""

    launch: Launch
    settings: Settings
    signals: Signals
    children: Children
    folder: pathlib.Path
    tell: Callable[[str], None]
    place: Place
    certificates: Certificates | None = None
    address: str = ""
    started: list[Child] = field(default_factory=list)
    script: Child | None = None

    def run(self) -> int:
        if self.launch.tls:
            self.certificates = open_certificates(self.launch.certs or self.folder / "tls", [self.launch.host])
        self.start()
        self.wait_until_ready()
        self.tell(f"cluster of {len(self.started) - 1} workers at {self.address}, logs in {self.launch.logs}")
        if not self.launch.script:
            self.tell("connect with " + " ".join(f"{k}={v}" for k, v in self.client_environment().items()))
        else:
            command = Command("script", (sys.executable, *self.launch.script), self.client_environment())
            self.script = self.children.start(lambda n: command, None)
        return self.watch()

    def start(self) -> None:
        # All at once: workers wait for the file in which the scheduler writes its address.
        self.start_child("scheduler", self.make_scheduler)
        pools = [(pool, i) for pool, count in self.launch.pools.items() for i in range(count)]
        shares = allot([pool for pool, _ in pools], available_cores())
        gpus = deal_gpus([pool for pool, _ in pools], gpus_here())
        for (pool, i), threads, gpu in zip(pools, shares, gpus, strict=True):
            self.start_child(f"{pool}-{i}", self.worker_maker(pool, i, threads, len(pools), gpu))

    def start_child(self, name: str, make: Callable[[int], Command]) -> None:
        log = self.launch.logs / f"{name}.log"
        log.unlink(missing_ok=True)
        self.started.append(self.children.start(make, log))

    def make_scheduler(self, incarnation: int) -> Command:
        # A scheduler that comes back listens where clients know it.
        port = (parse_address(self.address).port if self.address else None) or self.launch.port
        command = scheduler_command(
            self.launch.host, port, self.certificates, dashboard=self.launch.dashboard, file=str(self.file)
        )
        return self.told(command)

    def told(self, command: Command) -> Command:
        """Hand on what these processes cannot know: where files that go with the launch are kept, and that the network
        is trusted, which may stand in our own config only.
        """
        own = {"DASK_TEMPORARY_DIRECTORY": str(self.folder)}
        own |= {"DASK_HETERPS__NETWORK__TRUSTED": "true"} if self.settings.trusted_network else {}
        return replace(command, environment={**command.environment, **own})

    def worker_maker(
        self, pool: str, i: int, threads: Threads, workers: int, gpu: str | None
    ) -> Callable[[int], Command]:
        memory = MEMORY_LIMIT // workers

        def make(incarnation: int) -> Command:
            # The scheduler refuses a name it still knows, and a dead worker may not be forgotten yet.
            name = f"{pool}-{i}" + (f".{incarnation}" if incarnation else "")
            host, before = self.place(name)
            command = worker_command(
                pool, name, host, threads, self.certificates, file=str(self.file), memory_bytes=memory,
                folder=str(self.folder), gpu=gpu,
            )  # fmt: skip
            environment = {**command.environment, **self.import_path()}
            words = (*before, sys.executable, "-m", *command.words) if before else command.words
            return self.told(replace(command, words=words, environment=environment))

        return make

    def import_path(self) -> Mapping[str, str]:
        """Workers import what lies beside the script, as the script does."""
        first = self.launch.script[0] if self.launch.script else "-m"
        beside = os.getcwd() if first == "-m" else str(pathlib.Path(first).absolute().parent)
        return {"PYTHONPATH": os.pathsep.join(filter(None, [beside, os.environ.get("PYTHONPATH", "")]))}

    @property
    def file(self) -> pathlib.Path:
        """Where the scheduler writes its address."""
        return self.folder / "scheduler.json"

    def client_environment(self) -> dict[str, str]:
        tls = self.certificates.environment() if self.certificates else {}
        return {"DASK_SCHEDULER_ADDRESS": self.address, **tls}

    def wait_until_ready(self) -> None:
        until = time.monotonic() + self.settings.start_s
        while missing := self.not_ready():
            if time.monotonic() > until:
                waited, names = f"{self.settings.start_s:g} s", ", ".join(missing)
                raise ClusterError(f"after {waited} these are not ready: {names}; see {self.launch.logs}")
            self.tick()

    def not_ready(self) -> list[str]:
        if not self.address:
            self.address = _read_address(self.file)
        there = _registered(self.address, self.client_security()) if self.address else set()
        return [child.name for child in self.started[1:] if child.name not in there] if self.address else ["scheduler"]

    def client_security(self) -> Security:
        if self.certificates is None:
            return Security()
        ca, role = str(self.certificates.ca), "client"
        pair = {"tls_client_cert": self.certificates.certificate(role), "tls_client_key": self.certificates.key(role)}
        return Security(require_encryption=True, tls_ca_file=ca, **{name: str(path) for name, path in pair.items()})

    def watch(self) -> int:
        while True:
            if self.script is not None and (code := self.script.process.poll()) is not None:
                return code if code >= 0 else 128 - code
            self.tick()

    def tick(self) -> None:
        """Wait for a signal or a moment; restart what has died."""
        if (number := self.signals.wait(_TICK_S)) is not None:
            raise _Stopped(number)
        for child in [child for child in self.started[1:] if self._is_retired(child)]:
            self.tell(f"{child.name} was retired and has ended")
            self.started.remove(child)
        for child in self.children.revive(self.started):
            self.tell(
                f"{child.log} ended: started again as {child.name}, {child.restarts} of {self.settings.max_restarts}"
            )

    def _is_retired(self, worker: Child) -> bool:
        """Whether a worker ended because it was asked to: one that loses its scheduler ends just as well."""
        ended_well, scheduler = worker.process.poll() == 0, self.started[0]  # looked at in this order
        return ended_well and scheduler.process.poll() is None and scheduler.began_s < worker.began_s

    def interrupt_script(self, stopped: _Stopped) -> None:
        """Let the script end in its own way first; the terminal has told it already if it told us."""
        if self.script is None:
            return
        if not terminal_told_us(stopped.number):
            self.script.signal(stopped.number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.script.process.wait(self.settings.grace_s)

    def stop(self) -> None:
        """End the script, then the workers, and leave the scheduler to the last: a worker that is closing can hang
        when its scheduler goes away under it.
        """
        self.children.stop([self.script] if self.script else [])
        self.children.stop(self.started[1:])


def _read_address(file: pathlib.Path) -> str:
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        return str(json.loads(file.read_text())["address"])
    return ""


def _registered(address: str, security: Security) -> set[str]:
    """Names of the workers a scheduler knows; none while it does not answer."""

    async def ask() -> set[str]:
        async with rpc(address, connection_args=security.get_connection_args("client"), timeout=2) as scheduler:
            identity = await asyncio.wait_for(scheduler.identity(n_workers=-1), 2)
            return {str(worker["name"]) for worker in identity["workers"].values()}

    try:
        return asyncio.run(ask())
    except (OSError, TimeoutError):
        return set()
