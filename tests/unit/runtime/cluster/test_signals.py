"""Signals that are waited for."""

import signal
from collections.abc import Iterator

import pytest

from heterps.runtime.cluster.signals import Signals


@pytest.fixture
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_was_ignored_stays_ignored(number: int) -> None:
    """``nohup heterps launch train.py &``, and the terminal is closed."""
    signal.signal(number, signal.SIG_IGN)
    with Signals() as signals:
        signal.raise_signal(number)
        assert signals.wait(0.05) is None
        assert signal.getsignal(number) is signal.SIG_IGN  # as children have it then
        signal.raise_signal(signal.SIGTERM)
        assert signals.wait(5) == signal.SIGTERM
    assert signal.getsignal(number) is signal.SIG_IGN
