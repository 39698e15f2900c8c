"""Loops that a training will need, compiled by processes beside it while it plans, starts and reads.

numba compiles one loop at a time in a process. What these processes compile is on disk when it is needed here; if that
is before they are done, it is waited for (:mod:`heterps.loop_claim`). They are started only where something is missing.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading

import cloudpickle

from heterps.compiled import compiling
from heterps.runtime.own_threads import logged, start_thread
from heterps.tiny_runs import Needs, missing

__all__ = ["compile_ahead", "told"]

#: What each process does, one after another: the longest first, and what calls the same loops not at once.
_CHAINS = (("pushes", "dense rules"), ("computing", "pulls", "metrics"))
_RUN = "from heterps.tiny_runs import main; main()"


class _Compiling:
    """The parts that processes of this one compile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: list[str] = []  # since none were left
        self._left: list[str] = []
        self._children: list[subprocess.Popen[bytes]] = []
        atexit.register(self._kill)

    def start(self, needs: Needs, parts: tuple[str, ...]) -> None:
        try:
            sent = cloudpickle.dumps(needs)
        except Exception:  # a metric that does not travel, and need not in one process: compiled when it is used
            return
        with self._lock:
            if self._left:  # another session of this process began; what it does not need is compiled when it is used
                return
            self._wanted, self._left = list(parts), list(parts)
        for chain in _CHAINS:
            if mine := [name for name in chain if name in parts]:
                start_thread("ahead", self._follow, mine, sent, failed=logged("compiling ahead"))

    def _follow(self, names: list[str], sent: bytes) -> None:
        """Start a process, count what it has done, and take back the rest when it ends, however it does."""
        try:
            with _process(names) as child:
                assert child.stdin is not None
                assert child.stdout is not None
                self._children.append(child)
                child.stdin.write(sent)
                child.stdin.close()
                for line in child.stdout:
                    self._end([line.decode().strip()])
        except OSError:  # it is gone, or could not be started: what it did not do is compiled when it is used
            pass
        finally:
            self._end(names)

    def _kill(self) -> None:
        for child in self._children:
            child.kill()  # a loop that it was about to write is compiled by the next who needs it

    def _end(self, names: list[str]) -> None:
        with self._lock:
            self._left = [name for name in self._left if name not in names]

    def told(self) -> str:
        with self._lock:
            wanted, left = len(self._wanted), list(self._left)
        if left:
            return f"compiling loops, {wanted - len(left)} of {wanted} parts done, left: {', '.join(left)}"
        return f"compiling {now}" if (now := compiling()) else ""


def _process(names: list[str]) -> subprocess.Popen[bytes]:
    # One thread of BLAS: what it computes is nothing. It finds the modules that we find.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
    )


_COMPILING = _Compiling()


def compile_ahead(needs: Needs) -> None:
    """Begin to compile what a training in this process needs and this machine does not have yet; return at once."""
    if len(os.sched_getaffinity(0)) > 1 and (parts := missing(needs)):
        _COMPILING.start(needs, parts)


def told() -> str:
    """Say what is compiled at the moment, for this process or in it; "" for nothing."""
    return _COMPILING.told()
