import json
import os
import pathlib
import pty
import signal

import psutil
import pytest

from heterps.hardware import Hardware

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

_CONNECT = """
import gc, json, os, pathlib, signal, subprocess, sys, time
from distributed import Client
from heterps.runtime.cluster.identity import identity_of

client = Client()

def workers():
    return {w["name"]: (w["resources"], w["nthreads"]) for w in identity_of(client)["workers"].values()}

def pids():
    names = {address: w["name"] for address, w in identity_of(client)["workers"].items()}
    return {names[address]: pid for address, pid in client.run(os.getpid).items()}
"""


def test_the_script_finds_its_pools_and_gives_the_exit_code(launched) -> None:
    script = f"""{_CONNECT}
from distributed import Security
from heterps.runtime.cluster.probe import discover

pathlib.Path("beside.py").write_text("def answer(): return 42")
import beside

def refuses(address):
    gc.collect()  # a client that failed before, collected while another one starts, makes Dask wait for itself
    nothing = dict.fromkeys(["tls_ca_file", "tls_client_cert", "tls_client_key"])
    try:
        Client(address, security=Security(require_encryption=False, **nothing), timeout=1)
    except (OSError, TypeError, RuntimeError):
        return True
    return False

address = client.scheduler.address
found = {{
    "answer": client.submit(beside.answer, resources={{"HPS_IO": 1}}).result(),
    "workers": workers(),
    "blas": list(client.run(os.getenv, "OMP_NUM_THREADS").values()),
    "hardware": discover(client).to_json(),
    "encrypted": address.startswith("tls://"),
    "strangers refused": refuses(address) and refuses(address.replace("tls", "tcp")),
}}
pathlib.Path("found.json").write_text(json.dumps(found))
while not pathlib.Path("go").exists():
    time.sleep(0.05)
sys.exit(7)
"""
    process = launched.start(script, "--servers", "1", "--io", "2", "--compute", "1", "--tls")
    found = json.loads(launched.wait_for("found.json"))
    started = launched.processes()
    listening = {c.laddr.ip for p in started for c in p.net_connections() if c.status == psutil.CONN_LISTEN}
    (launched.folder / "go").touch()
    assert process.wait(60) == 7
    assert not launched.processes()
    assert listening == {"127.0.0.1"}
    check_found(found)
    assert {path.stem for path in launched.logs.iterdir()} == {"scheduler", *found["workers"]}


def check_found(found: dict) -> None:
    cores = len(os.sched_getaffinity(0))
    assert found["answer"] == 42
    assert found["encrypted"]
    assert found["strangers refused"]
    assert {name: resources for name, (resources, _) in found["workers"].items()} == {
        "server-0": {"HPS_SERVER": 1}, "io-0": {"HPS_IO": 1}, "io-1": {"HPS_IO": 1}, "compute-0": {"HPS_COMPUTE": 1},
    }  # fmt: skip
    assert sum(nthreads for _, nthreads in found["workers"].values()) <= max(cores, 4)
    assert all(0 < int(n) <= max(1, cores - 3) for n in found["blas"])
    hardware = Hardware.from_json(found["hardware"])
    assert {pool.name: pool.cap for pool in hardware.pools} == {"server": 1, "io": 2, "compute": 1}
    pairs = {(link.source, link.target) for link in hardware.links}
    assert pairs == {("compute", "io"), ("compute", "server"), ("io", "server")}


def test_what_freezes_is_named_and_what_dies_comes_back(launched) -> None:
    script = f"""{_CONNECT}
from heterps.errors import ClusterError
from heterps.runtime.cluster.pools import Need, wait_for_pools

def wait_until(there):
    until = time.monotonic() + 90
    while not there():
        assert time.monotonic() < until, workers()
        time.sleep(0.1)

pid = pids()["io-0"]
os.kill(pid, signal.SIGSTOP)
try:
    wait_for_pools(client, [Need("io")])
except ClusterError as error:
    print("frozen:", error)
os.kill(pid, signal.SIGKILL)
wait_until(lambda: "io-0.1" in workers())
print("worked:", client.submit(sum, [1, 2], resources={{"HPS_IO": 1}}).result())

address, scheduler = client.scheduler.address, client.run_on_scheduler(os.getpid)
client.close()
os.kill(scheduler, signal.SIGKILL)

def reconnected():
    global client
    gc.collect()
    try:
        client = Client(timeout=2)
    except OSError:
        return False
    return bool(workers())

wait_until(reconnected)
print("back:", client.scheduler.address == address, client.run_on_scheduler(os.getpid) != scheduler)
"""
    launched.environment["DASK_HETERPS__TIMEOUTS__CONNECT"] = "1s"
    code, out, err = launched.run(script, "--servers", "0", "--io", "1")
    frozen, worked, back = out.splitlines()
    assert frozen.startswith("frozen: worker io-0 at tcp://127.0.0.1:")
    assert "did not answer within 1 s" in frozen
    assert (code, worked, back) == (0, "worked: 3", "back: True True"), err
    assert "started again as io-0.1, 1 of 3" in err


def test_a_process_that_keeps_dying_ends_the_launch(launched) -> None:
    script = f"""{_CONNECT}
pid = pids()["io-0"]
os.kill(pid, signal.SIGKILL)
time.sleep(60)
"""
    code, _, err = launched.run(script, "--servers", "0", "--io", "1", "--max-restarts", "0")
    assert code == 1
    assert "io-0 was killed by SIGKILL" in err
    assert "Registered to" in err  # the end of its log
    assert not launched.processes()


@pytest.mark.parametrize("terminal", [True, False])
def test_an_interrupt_reaches_the_script_once_and_leaves_nothing(launched, terminal: bool) -> None:
    script = f"""{_CONNECT}
subprocess.Popen(["sleep", "300"], start_new_session=True)
pathlib.Path("ready").write_text("yes")
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)  # a second one would show here
    pathlib.Path("interrupted").write_text("yes")
"""
    keyboard, launched.terminal = pty.openpty() if terminal else (None, None)
    process = launched.start(script, "--servers", "0", "--io", "1")
    launched.wait_for("ready")
    if keyboard is None:
        process.send_signal(signal.SIGINT)
    else:
        os.write(keyboard, b"\x03")
    assert process.wait(60) == 128 + signal.SIGINT
    assert (launched.folder / "interrupted").exists()
    assert not launched.processes()


def test_terminating_the_launcher_during_the_start_leaves_nothing(launched) -> None:
    process = launched.start("", "--servers", "1", "--io", "1")
    until_started = launched.logs / "io-0.log"
    while not until_started.exists():
        assert process.poll() is None
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not launched.processes()


def test_killing_the_launcher_takes_everything_along(launched) -> None:
    script = f"""{_CONNECT}
pathlib.Path("ready").write_text("yes")
time.sleep(60)
"""
    process = launched.start(script, "--servers", "1", "--io", "1")
    launched.wait_for("ready")
    assert len(launched.processes()) >= 5
    process.kill()
    launched.wait_until_gone()


def test_an_open_address_without_tls_is_refused(launched) -> None:
    code, _, err = launched.run("print('ran')", "--host", "0.0.0.0")
    assert code == 1
    assert "without TLS" in err
    assert not launched.logs.exists()


def test_a_failing_worker_is_shown_with_its_log(launched) -> None:
    pathlib.Path(launched.folder, "sitecustomize.py").write_text(
        "import sys\nif 'worker' in sys.argv: raise SystemExit('no worker today')\n"
    )
    code, _, err = launched.run("print('ran')", "--servers", "0", "--io", "1", "--max-restarts", "1")
    assert code == 1
    assert "restarted 1 times" in err
    assert not launched.processes()
