"""Connections are cut from inside, but for those to the scheduler and an event loop's own."""

import json
import subprocess
import sys

SCRIPT = """
import json, socket, types
from heterps.soak.sockets import drop_sockets

def connected(family, address):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    client = socket.socket(family)
    client.connect(server.getsockname())
    return server, client, server.accept()[0]

tcp = connected(socket.AF_INET, ("127.0.0.1", 0))
unix = connected(socket.AF_UNIX, "named")
kept = connected(socket.AF_INET, ("127.0.0.1", 0))
pair = socket.socketpair()
address = "tcp://127.0.0.1:%d" % kept[0].getsockname()[1]
cut = drop_sockets(types.SimpleNamespace(scheduler=types.SimpleNamespace(address=address)))

def is_open(a, b):
    try:
        a.sendall(b"x")
        b.settimeout(5)
        return b.recv(1) == b"x"
    except OSError:
        return False

print(json.dumps({"cut": cut, "tcp": is_open(*tcp[1:]), "unix": is_open(*unix[1:]), "pair": is_open(*pair)}))
"""


def test_all_but_the_scheduler_and_a_loop_with_itself(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    # Of the connection to the scheduler its far end, which is in this process as well, is no scheduler's.
    assert json.loads(done.stdout) == {"cut": 5, "tcp": False, "unix": False, "pair": True}
