"""A network inside this process's own: every worker at the end of a link that can be cut. Needs root and ``ip``.

This process leaves the machine's network for a new one, in which a bridge joins the links, so nothing of the machine
changes and all is gone with the last process. A link that is down drops packets without a word, as a cable does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import time
from types import TracebackType

from heterps.errors import ClusterError
from heterps.runtime.cluster import child

__all__ = ["HUB", "Links", "can_part"]

HUB = "10.78.0.1"
"""Where the scheduler and the script are."""
_CLONE_NEWNET = 0x40000000
_LOOK_S = 0.005
_TOOLS = ("ip", "nsenter", "unshare")


def can_part() -> bool:
    """Whether this process may make networks."""
    return os.geteuid() == 0 and all(map(shutil.which, _TOOLS))


class Links:
    """Links by worker, made when first asked for; a context manager, entered by whoever starts processes in it.

    Parameters
    ----------
    folder
        Where links are written down, for others who cut them.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._holders: list[subprocess.Popen[bytes]] = []  # each keeps a place's network alive

    def __enter__(self) -> Links:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
            raise ClusterError(f"no network of our own: {os.strerror(ctypes.get_errno())}")
        for words in ("set lo up", "add hub type bridge", "set hub up"):
            _run("ip", "link", *words.split())
        _run("ip", "addr", "add", f"{HUB}/16", "dev", "hub")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def place(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return the address of a worker, and the words before its command that start it there."""
        file = self._file(name)
        if not file.exists():
            self._make(len(list(self.folder.iterdir())), file)
        number, holder = file.read_text().split()
        return _address(int(number)), ("nsenter", "-t", holder, "-n", "--")

    def _make(self, number: int, file: pathlib.Path) -> None:
        tied = (sys.executable, "-I", "-S", str(child.__file__), str(os.getpid()))  # ends with us
        holder = subprocess.Popen([*tied, "unshare", "--net", "sleep", "infinity"])
        self._holders.append(holder)
        _until_apart(holder)
        _run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _run("ip", "link", "set", f"to{number}", "master", "hub", "up")
        for words in ("link set lo up", "link set eth0 up", f"addr add {_address(number)}/16 dev eth0"):
            _run("nsenter", "-t", str(holder.pid), "-n", "ip", *words.split())
        file.write_text(f"{number} {holder.pid}")

    def cut(self, name: str) -> None:
        """From now on a worker hears nobody and is not heard."""
        file = self._file(name)
        if file.exists():
            _run("ip", "link", "set", f"to{file.read_text().split()[0]}", "down")

    def join(self) -> None:
        """Bring all links up."""
        for file in self.folder.iterdir():
            _run("ip", "link", "set", f"to{file.read_text().split()[0]}", "up")

    def _file(self, name: str) -> pathlib.Path:
        return self.folder / name.partition(".")[0]  # one that is started again has the link of the one before


def _address(number: int) -> str:
    return f"10.78.1.{number + 1}"


def _until_apart(holder: subprocess.Popen[bytes]) -> None:
    """Wait until a process that was just started has a network of its own."""
    ours = theirs = os.readlink("/proc/self/ns/net")
    while theirs == ours:
        if holder.poll() is not None:
            raise ClusterError(f"no network for a worker: unshare ended with code {holder.returncode}")
        with contextlib.suppress(FileNotFoundError):
            theirs = os.readlink(f"/proc/{holder.pid}/ns/net")
        time.sleep(_LOOK_S)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(words)}: {done.stderr.strip()}")
