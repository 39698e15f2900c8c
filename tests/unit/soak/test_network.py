"""A link for each worker, in a network of its own: what is cut hears nobody until it is joined again."""

import json
import subprocess
import sys

import pytest

from heterps.soak.network import can_part

SCRIPT = """
import json, os, pathlib, subprocess, sys
from heterps.soak.network import HUB, Links

HEAR = "import socket, sys; print(socket.create_connection((sys.argv[1], 5000), 2).recv(1).decode())"
SAY = (
    "import socket, sys; server = socket.create_server((sys.argv[1], 5000)); print(1, flush=True)\\n"
    "while True: server.accept()[0].sendall(b'x')"
)

def heard(before):
    done = subprocess.run([*before, sys.executable, "-c", HEAR, address], capture_output=True, text=True)
    return done.stdout.strip()

outside = os.readlink("/proc/self/ns/net")
folder = pathlib.Path("links")
folder.mkdir()
with Links(folder) as links:
    address, before = links.place("io-0")
    other, behind = links.place("io-1")
    again = links.place("io-0.1")  # started again
    server = subprocess.Popen([*before, sys.executable, "-c", SAY, address], stdout=subprocess.PIPE)
    server.stdout.readline()
    told = [heard(()), heard(behind)]
    links.cut("io-0.1")
    told += [heard(())]
    links.join()
    told += [heard(behind)]
    server.kill()
    server.wait()
    inside = os.readlink("/proc/self/ns/net")
print(json.dumps([told, address != other, again == (address, before), inside != outside]))
"""


@pytest.mark.full
@pytest.mark.skipif(not can_part(), reason="needs root, ip, nsenter and unshare")
def test_a_cut_link_is_silent_until_it_is_joined(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["x", "x", "", "x"], True, True, True]
