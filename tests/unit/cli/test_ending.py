"""A signal ends a command wherever it arrives."""

import ctypes
import signal
import time
from collections.abc import Callable
from pathlib import Path

import click
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


def command(arrives: Callable[[], None]) -> None:
    until = time.monotonic() + 60
    with ending():
        arrives()
        while time.monotonic() < until:  # it goes on, unless it is told
            time.sleep(0.01)


@pytest.mark.parametrize("arrives", [plainly, finalizer, _called_back], ids=["plainly", "finalizer", "callback of C"])
def test_a_signal_ends_the_command_also_where_its_error_cannot_be_raised(arrives: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        command(arrives)
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def confused() -> None:
    with ending():
        _called_back()
        raise RuntimeError("the compiler's caller misses its answer")


def test_an_error_that_the_swallowed_signal_left_behind_ends_the_command_once() -> None:
    """What raises the signal again must not outlive the handlers: the process would die of it, without its code."""
    late: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: late.append(number))
    try:
        with pytest.raises(SystemExit) as ended:
            confused()
        time.sleep(0.1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 128 + signal.SIGTERM
    assert not late


def to_a_full_disk() -> None:
    with ending(), Path("/dev/full").open("w") as full:
        print("text", file=full, flush=True)


def test_a_full_disk_behind_what_is_printed_is_no_mistake_of_ours() -> None:
    with pytest.raises(click.ClickException, match=r"^No space left on device: make room where the output goes$"):
        to_a_full_disk()
