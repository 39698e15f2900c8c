"""The lab of the benchmarks: places reach each other through counted links, and nothing stays behind."""

import os
import shutil
import subprocess
import sys

import pytest

from benchmarks.netlab import Lab, Link

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"), reason="needs root, ip and tc"
    ),
]

SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 5000))
connection.sendall(bytes(1_000_000)); connection.shutdown(socket.SHUT_WR); connection.recv(1)
"""
TAKE = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000)); print("ready", flush=True)
connection, _ = server.accept()
while connection.recv(65536): pass
"""


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("link", [Link(100), Link(1000, delay_ms=1)], ids=["rate", "delay"])
def test_what_one_place_sends_another_gets_through_counted_links(link: Link) -> None:
    with Lab(("a", "b", "idle"), link) as lab:
        before = lab.bytes()
        taker = lab.start("b", [sys.executable, "-c", TAKE, lab.address("b")], stdout=subprocess.PIPE, text=True)
        assert taker.stdout is not None
        assert taker.stdout.readline() == "ready\n"
        assert lab.start("a", [sys.executable, "-c", SEND, lab.address("b")]).wait(60) == 0
        moved = {place: after - before[place] for place, after in lab.bytes().items()}
        taker.stdout.close()
        prefix = lab._prefix
        assert prefix in namespaces()
        assert len(lab.carriers) == (3 if link.delay_ms else 0)
    assert 1_000_000 < moved["a"].sent < 1_300_000
    assert 1_000_000 < moved["b"].received < 1_300_000
    assert moved["idle"].sent < 100_000
    assert prefix not in namespaces()


def test_a_lab_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "address", lambda self, place: "no address")
    lab = Lab(("a", "b"), Link(10))
    with pytest.raises(subprocess.CalledProcessError), lab:
        pass
    assert lab._prefix not in namespaces()
