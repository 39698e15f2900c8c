"""Paddle's geo over its async where links are slow: two servers and two trainers, each behind a link of its own.

    python -m benchmarks.paddle_links PYTHON [--seconds 10] [--rate 100] [VARIANT ...]

PYTHON has PaddlePaddle (``python -m benchmarks.peers paddle`` makes one). Wide & Deep, the ids, batches and links of
``benchmarks.geo_links --workload wide_deep``; geo exchanges every hundred batches. Prints samples/s, bytes per sample
on the trainers' links, CPU of trainers and servers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from threading import Thread

from benchmarks.geo_links import cpu_s
from benchmarks.machine import describe
from benchmarks.netlab import Lab, Link
from benchmarks.peer_paddle import WINDOW_SAMPLES, shares
from benchmarks.serve import Settings
from benchmarks.workload import Workload, data_file

SERVERS, TRAINERS = ("server0", "server1"), ("io0", "io1")
PORT = 8200
START_S = 60.0


def settings_of(variant: str, batch: int = 1024) -> Settings:
    """What one variant trains: rows by SGD, 26 slots of 100,000 ids."""
    load, train = Workload(), 2 * WINDOW_SAMPLES
    data = str(data_file(load, train))
    return Settings(data, train, 0, "wide_deep", "sgd", batch, 1, load.ids, load.dim, variant, "memory", "", 1)


def environment(lab: Lab, chosen: Settings, socket: str) -> dict[str, str]:
    """What all processes are told."""
    return {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "HETERPS_PADDLE_SOCKET": socket,
        "HETERPS_PADDLE_SETTINGS": json.dumps(dataclasses.asdict(chosen)),
        "HETERPS_PADDLE_FILES": json.dumps(shares(chosen)),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"{lab.address(place)}:{PORT}" for place in SERVERS),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(f"{lab.address(place)}:{PORT + 1}" for place in TRAINERS),
        "PADDLE_TRAINERS_NUM": str(len(TRAINERS)),
        "PADDLE_WITH_GLOO": "0",
        "OMP_NUM_THREADS": "1",
    }


def start(lab: Lab, python: str, place: str, told: Mapping[str, str], folder: str) -> int:
    """Start a server or a trainer; return its process."""
    serves, number = place in SERVERS, int(place[-1])
    own = {"TRAINING_ROLE": "PSERVER" if serves else "TRAINER", "POD_IP": lab.address(place)}
    own |= {"PADDLE_PORT": str(PORT if serves else PORT + 1), "PADDLE_TRAINER_ID": str(number)}
    words = [python, str(Path(__file__).with_name("paddle_trainer.py"))]
    with open(Path(folder) / f"{place}.log", "w") as log:
        return lab.start(place, words, stdout=log, stderr=log, env={**told, **own}, cwd=folder).pid


def run(python: str, variant: str, seconds: float, link: Link) -> dict[str, float]:
    """Train over such links; the first window loads the data and is not counted."""
    with Lab((*SERVERS, *TRAINERS), link) as lab, tempfile.TemporaryDirectory() as folder:
        socket = str(Path(folder) / "socket")
        told = environment(lab, settings_of(variant), socket)
        with Listener(socket, "AF_UNIX", backlog=len(TRAINERS)) as listener:
            processes = {place: start(lab, python, place, told, folder) for place in lab.places}
            answering = Thread(target=lambda: pipes.extend(listener.accept() for _ in TRAINERS), daemon=True)
            pipes: list[Connection] = []
            answering.start()
            answering.join(START_S)
        if len(pipes) < len(TRAINERS):
            logs = "\n".join(file.read_text()[-2000:] for file in Path(folder).glob("*.log"))
            raise RuntimeError(f"the trainers did not start within {START_S:g} s\n{logs}")
        for pipe in pipes:
            pipe.recv()  # its number
            pipe.recv()  # it is ready
        _window(pipes, 0.5)
        before = lab.bytes(), {place: cpu_s(pid) for place, pid in processes.items()}
        samples, took = _window(pipes, seconds)
        moved = {place: each - before[0][place] for place, each in lab.bytes().items()}
        used = {place: (cpu_s(pid) - before[1][place]) / took for place, pid in processes.items()}
        busiest = max(max(each.sent, each.received) for each in moved.values())
        return {
            "samples/s": samples / took,
            "bytes/sample": sum(moved[place].sent + moved[place].received for place in TRAINERS) / samples,
            "busiest link Mbit/s": 8 * busiest / took / 1e6,
            "trainer cores": sum(used[place] for place in TRAINERS),
            "server cores": sum(used[place] for place in SERVERS),
            "seconds": took,
        }


def _window(pipes: list[Connection], seconds: float) -> tuple[int, float]:
    """Let all trainers run whole passes for about so long."""
    for pipe in pipes:
        pipe.send(("go", seconds))
    told = [pipe.recv() for pipe in pipes]
    return sum(each[0] for each in told), max(each[2] for each in told) - min(each[1] for each in told)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("variants", nargs="*", default=["async", "geo"])
    parser.add_argument("--rate", type=float, action="append", help="Mbit/s of every link")
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is taken down
    print(f"{describe()['processor']}; load {os.getloadavg()[0]:.1f}")
    for rate in chosen.rate or [1000.0, 100.0]:
        base = 0.0
        for variant in chosen.variants:
            found = run(chosen.python, variant, chosen.seconds, Link(rate))
            base = base or found["samples/s"]
            figures = ", ".join(f"{name} {value:,.4g}" for name, value in found.items())
            print(f"Paddle {variant}, {Link(rate)}: {figures} ({found['samples/s'] / base:.2f})", flush=True)


if __name__ == "__main__":
    main()
