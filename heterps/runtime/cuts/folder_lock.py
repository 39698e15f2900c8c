"""One run writes to a checkpoint folder at a time: a lock that says who holds it.

The file's lock (``flock``) decides among processes of one machine: it goes with its holder, however that ends. The
text in the file names the holder, for the message, and for other machines, whose locks a network disk may not show.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from heterps.errors import CheckpointError

__all__ = ["LOCK", "FolderLock"]

LOCK = ".heterps-lock"
_MOST = 4096  # bytes of a lock's text that are looked at


@dataclass(frozen=True)
class _Holder:
    """Who holds a lock: host name, process, when it began, and which start of the machine that was.

    Containers of one machine have host names of their own but share its locks; ``boot`` tells.
    """

    host: str
    pid: int
    start: str
    boot: str = ""

    @classmethod
    def here(cls) -> _Holder:
        return cls(socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"), _boot())

    @classmethod
    def parse(cls, text: bytes) -> _Holder | None:
        """Read a lock's text; None where there is none, or none that was written whole."""
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            value = json.loads(text)
            return cls(str(value["host"]), int(value["pid"]), str(value["start"]), str(value.get("boot", "")))
        return None

    @property
    def is_of_this_machine(self) -> bool:
        return self.host == socket.gethostname() or (self.boot != "" and self.boot == _boot())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.start})"


class FolderLock:
    """Holds a folder from the moment it is made until :meth:`close`, or the end of the process.

    Parameters
    ----------
    folder
        Must exist.

    Raises
    ------
    CheckpointError
        Somebody else holds it: the message names process, machine and since when.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.realpath(folder))
        self._path = self.folder / LOCK
        self._closing = threading.Lock()
        self._file: int | None = self._take()

    def holds(self, folder: str | os.PathLike[str]) -> bool:
        """Say whether this is the lock of a folder, by whatever path."""
        return self._file is not None and Path(os.path.realpath(folder)) == self.folder

    def _take(self) -> int:
        while True:
            file = self._open()
            try:
                self._lock(file)
                if _is_file(file, self._path):  # else its last holder has just removed it: the name is free again
                    self._check_elsewhere(file)
                    self._sign(file)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def _open(self) -> int:
        try:
            # Neither a link nor a pipe that somebody put there is opened; no waiting.
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise CheckpointError(f"cannot lock {self.folder}: {LOCK}: {error.strerror}") from error

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _Holder.parse(os.pread(file, _MOST, 0))
            raise CheckpointError(
                f"{self.folder} is in use by {holder or 'another process'}: wait for it, end it, or name another folder"
            ) from None
        except OSError as error:
            raise CheckpointError(f"cannot lock {self.folder}: {error.strerror}") from error

    def _check_elsewhere(self, file: int) -> None:
        """A holder of this machine would have been seen by its lock, so it is gone; one elsewhere may be alive."""
        holder = _Holder.parse(os.pread(file, _MOST, 0))
        if holder is not None and not holder.is_of_this_machine:
            raise CheckpointError(
                f"{self.folder} is in use by {holder}, or was when that run broke off: if it has ended, remove "
                f"{self._path} and start again"
            )

    def _sign(self, file: int) -> None:
        """Say who holds the folder; a disk that is full takes not even that."""
        try:
            _write(file, _Holder.here())
        except OSError as error:
            self._path.unlink(missing_ok=True)
            raise CheckpointError(f"cannot lock {self.folder}: {error.strerror}") from error

    def close(self) -> None:
        """Give the folder back; may be called twice."""
        with self._closing:
            file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                if _is_file(file, self._path):
                    self._path.unlink()
            os.close(file)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _is_file(file: int, path: Path) -> bool:
    """Say whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False


def _write(file: int, holder: _Holder) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(asdict(holder)).encode(), 0)
