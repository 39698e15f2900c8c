"""One process compiles a loop, the others wait for what it writes: the claim on the files of a loop.

A claim is the lock (``flock``) of a file beside the loop's, which goes with its holder however that ends. Who compiles
claims a loop before those it calls, and loops do not call each other in circles: no two processes wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["claimed"]

#: A holder that was stopped would be waited for without end: after so long everybody compiles for himself.
_PATIENCE_S = 60.0
_STEP_S = 0.01


@contextmanager
def claimed(path: str, there: Callable[[], bool], patience_s: float = _PATIENCE_S) -> Iterator[bool]:
    """Hold a claim inside the block, and say so; without it the loop is there by now, or somebody is stuck with it.

    Parameters
    ----------
    path
        Of the file whose lock it is; its folder must exist.
    there
        Says whether the loop's files are: whoever holds the claim writes them before it is given back.
    patience_s
        How long to wait for another holder.

    Raises
    ------
    OSError
        Files cannot be locked there.
    """
    file = _take(path, there, time.monotonic() + patience_s)
    try:
        yield file is not None
    finally:
        if file is not None:
            with suppress(OSError):
                os.unlink(path)  # by its holder only: so no two locked files ever had the name at once
            os.close(file)


def _take(path: str, there: Callable[[], bool], end_s: float) -> int | None:
    while not there():
        file = _try_lock(path)
        if file is not None:
            return file
        if time.monotonic() > end_s:
            return None
        time.sleep(_STEP_S)
    return None


def _try_lock(path: str) -> int | None:
    """Return the file with its lock, None if another process has it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    except (BlockingIOError, FileNotFoundError):  # held, or just removed by its holder: the name is free again
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None
