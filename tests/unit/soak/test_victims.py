"""Who is hit: workers of one launch by role, never the last of them, and nothing stays stopped."""

import subprocess
import sys
from collections.abc import Iterator
from random import Random

import psutil
import pytest

from heterps.soak.victims import FAULTS, Victims

WORDS = (sys.executable, "-c", "import sys; sys.stdin.read()")


@pytest.fixture
def started() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Processes that look like workers, and one that does not."""
    names = ("server-0", "server-1.2", "io-0")
    found = {name: subprocess.Popen([*WORDS, "--name", name], stdin=subprocess.PIPE) for name in names}
    found["other"] = subprocess.Popen([*WORDS, "server-9"], stdin=subprocess.PIPE)
    yield found
    for process in found.values():
        process.kill()
        process.communicate()


def pids(processes: list[psutil.Process]) -> set[int]:
    return {process.pid for process in processes}


def test_workers_are_found_by_role(started: dict[str, subprocess.Popen[bytes]]) -> None:
    victims = Victims(psutil.Process(), Random(1))
    assert pids(victims.workers("server")) == {started["server-0"].pid, started["server-1.2"].pid}
    assert pids(victims.workers("io")) == {started["io-0"].pid}


def test_the_last_of_a_role_is_spared(started: dict[str, subprocess.Popen[bytes]]) -> None:
    victims = Victims(psutil.Process(), Random(1))
    assert not victims.hit("kill io")
    assert victims.hit("kill server")
    gone = next(p for name, p in started.items() if name.startswith("server") and p.wait(60) == -9)
    assert gone.returncode == -9
    assert not victims.hit("freeze server")


def test_what_was_stopped_is_killed_or_goes_on(started: dict[str, subprocess.Popen[bytes]]) -> None:
    victims = Victims(psutil.Process(), Random(1))
    assert victims.hit("freeze server")
    (stopped,) = victims._stopped.values()
    assert len(victims.workers("server")) == 1, "it is not hit again"
    victims.clear()
    assert next(p for p in started.values() if p.pid == stopped.pid).wait(60) == -9
    assert {fault.split()[1] for fault in FAULTS} == {"server", "io"}
