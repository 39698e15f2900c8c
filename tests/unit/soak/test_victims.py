"""Who is hit: workers of one launch by role, never the last of them, and nothing stays stopped."""

import subprocess
import sys
from collections.abc import Iterator
from random import Random

import psutil
import pytest

from heterps.errors import RunError
from heterps.soak.victims import Victims, faults_of

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
    (stopped,) = victims._struck.values()
    assert len(victims.workers("server")) == 1, "it is not hit again"
    victims.clear()
    assert next(p for p in started.values() if p.pid == stopped.pid).wait(60) == -9


def test_what_was_slowed_goes_on(started: dict[str, subprocess.Popen[bytes]]) -> None:
    victims = Victims(psutil.Process(), Random(1))
    assert victims.hit("slow server")
    (stopped,) = victims._struck.values()
    victims.over("slow server")
    assert stopped.status() != psutil.STATUS_STOPPED
    assert len(victims.workers("server")) == 2


@pytest.mark.parametrize(
    ("usual", "able"), [(1, {"retire": True, "add": False}), (2, {"retire": False, "add": True})], ids=["more", "usual"]
)
def test_the_number_of_workers_comes_back_to_the_usual(
    started: dict[str, subprocess.Popen[bytes]], usual: int, able: dict[str, bool]
) -> None:
    victims = Victims(psutil.Process(), Random(1), {"server": usual})
    assert {what: victims.able(f"{what} server") for what in able} == able


def test_who_was_asked_to_go_is_not_counted_any_more(started: dict[str, subprocess.Popen[bytes]]) -> None:
    """It may take its time to go: until then another one must not be asked in its place."""
    victims = Victims(psutil.Process(), Random(1), {"server": 1})
    for name in ("server-0", "server-1.2"):  # stopped: the signal waits for them to go on
        psutil.Process(started[name].pid).suspend()
    assert victims.hit("term server")
    assert len(victims.workers("server")) == 1
    assert not victims.able("term server")
    assert not victims.able("kill server")


def test_faults_by_their_words() -> None:
    assert faults_of("kill, drop server", network=False) == ("kill server", "kill io", "drop server")
    assert "part io" in faults_of("", network=True)
    assert "part io" not in faults_of("", network=False)
    with pytest.raises(RunError, match="no fault is called 'kil'; there are add, add io"):
        faults_of("kil", network=True)
    with pytest.raises(RunError, match="part needs root"):
        faults_of("part", network=False)
