"""A signal ends a command wherever it arrives."""

import ctypes
import signal
import time
from collections.abc import Callable

import pytest

from heterps.cli._ending import ending


class _Finalized:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def finalizer() -> None:
    _Finalized()


@ctypes.CFUNCTYPE(None)
def _called_back() -> None:
    signal.raise_signal(signal.SIGTERM)


def plainly() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("arrives", [plainly, finalizer, _called_back], ids=["plainly", "finalizer", "callback of C"])
def test_a_signal_ends_the_command_also_where_its_error_cannot_be_raised(arrives: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    until = time.monotonic() + 60
    with pytest.raises(SystemExit) as ended, ending():
        arrives()
        while time.monotonic() < until:  # the command goes on, unless it is told
            time.sleep(0.01)
    assert ended.value.code == 128 + signal.SIGTERM
    assert time.monotonic() < until
    assert signal.getsignal(signal.SIGTERM) is before
