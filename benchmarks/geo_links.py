"""Geo over Async where links are slow: scheduler, two servers and two workers, each behind a link of its own.

    HETERPS_TEXT8=text8.head python -m benchmarks.geo_links [--seconds 15] [--rate 100] [--workload word2vec] [MODE ...]

Prints samples/s, bytes per sample on the workers' links, CPU of workers and servers. With ``--quality`` it trains the
same samples (``HETERPS_SAMPLES`` of them) in every mode without limits on links, and prints how good the model is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.machine import describe
from benchmarks.netlab import Lab, Link
from heterps.runtime.cluster.commands import Command, scheduler_command, worker_command
from heterps.runtime.cluster.core_share import Threads

PLACES = ("scheduler", "server0", "server1", "io0", "io1")
ENVIRONMENT = {"DASK_HETERPS__NETWORK__TRUSTED": "true", "DASK_HETERPS__NETWORK__UNIX_SOCKETS": "false"}
ENVIRONMENT |= {"DASK_HETERPS__TIMEOUTS__WORKERS": "120s"}


def cluster(lab: Lab, folder: Path) -> tuple[str, dict[str, int]]:
    """Start a cluster with one process at each place; return the scheduler's address and the process of each place."""
    address = f"tcp://{lab.address('scheduler')}:8786"
    commands = {"scheduler": scheduler_command(lab.address("scheduler"), 8786)}
    for place in PLACES[1:]:
        pool = place.rstrip("01")
        commands[place] = worker_command(
            pool, place, lab.address(place), Threads(1, 1), scheduler=address, folder=str(folder / place)
        )
    return address, {place: _start(lab, place, command, folder) for place, command in commands.items()}


def _start(lab: Lab, place: str, command: Command, folder: Path) -> int:
    words = [str(Path(sys.executable).parent / command.words[0]), *command.words[1:]]
    log = open(folder / f"{place}.log", "w")  # noqa: SIM115  (the process has it)
    environment = os.environ | ENVIRONMENT | dict(command.environment)
    return lab.start(place, words, stdout=log, stderr=log, env=environment).pid


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def told(driver: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what a driver prints."""
    assert driver.stdout is not None
    for line in driver.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def run(module: str, given: Sequence[str], link: Link) -> dict[str, float]:
    """Let a driver train over such links: ``python -m MODULE SCHEDULER GIVEN``; figures are of the time after the first
    batches.
    """
    with Lab(PLACES, link) as lab, tempfile.TemporaryDirectory() as name:
        address, processes = cluster(lab, Path(name))
        words = [sys.executable, "-m", module, address, *given]
        with open(Path(name) / "driver.log", "w") as errors:
            driver = lab.start(
                "scheduler", words, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | ENVIRONMENT
            )
        seen: list[tuple[dict[str, Any], dict[str, Any], dict[str, float]]] = []
        for line in told(driver):
            if line.get("samples"):
                seen.append((line, lab.bytes(), {place: cpu_s(pid) for place, pid in processes.items()}))
        if len(seen) < 2:
            logs = "\n".join(file.read_text()[-2000:] for file in Path(name).glob("*.log"))
            raise RuntimeError(f"no figures: the driver ended with {driver.wait()}\n{logs}")
        carriers = lab.carriers  # of packets that are held up: where they take the cores, figures are theirs
        return _figures(seen[0], seen[-1]) | ({"carrier cores": sum(carriers)} if carriers else {})


def _figures(first: Any, last: Any) -> dict[str, float]:
    samples, took = last[0]["samples"] - first[0]["samples"], last[0]["at"] - first[0]["at"]
    moved = {place: last[1][place] - first[1][place] for place in PLACES}
    io = [moved["io0"], moved["io1"]]
    busiest = max(max(each.sent, each.received) for each in moved.values())
    used = {place: (last[2][place] - first[2][place]) / took for place in PLACES}
    return {
        "samples/s": samples / took,
        "bytes/sample": sum(each.sent + each.received for each in io) / max(samples, 1),
        "busiest link Mbit/s": 8 * busiest / took / 1e6,
        "worker cores": used["io0"] + used["io1"],
        "server cores": used["server0"] + used["server1"],
        "local rows": last[0]["local_rows"],
        "seconds": took,
    }


def judged(module: str, words: Sequence[str], figure: str) -> dict[str, float]:
    """Have a driver train on all samples in a cluster of its own; return what it tells with a figure."""
    driver = subprocess.Popen([sys.executable, "-m", module, "none", *words, "0"], stdout=subprocess.PIPE, text=True)
    found = [line for line in told(driver) if figure in line]
    if not found:
        raise RuntimeError(f"no figure: the driver ended with {driver.wait()}")
    return found[0]


def quality(workload: str, mode: str) -> float:
    """Train on all samples in this process's cluster and judge the model."""
    return float(judged("benchmarks.geo_driver", [workload, mode], "quality")["quality"])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", nargs="*", default=["async:2", "geo:100", "geo:400"])
    parser.add_argument("--workload", default="word2vec")
    parser.add_argument("--rate", type=float, action="append", help="Mbit/s of every link")
    parser.add_argument("--delay", type=float, default=0.0, help="ms on every link, one way")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--quality", action="store_true")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is taken down
    print(f"{describe()['processor']}; load {os.getloadavg()[0]:.1f}")
    for mode in chosen.modes if chosen.quality else ():
        began = monotonic()
        print(
            f"{chosen.workload} {mode}: quality {quality(chosen.workload, mode):.4f} ({monotonic() - began:.0f} s)",
            flush=True,
        )
    for rate in () if chosen.quality else chosen.rate or [1000.0, 100.0]:
        link, base = Link(rate, chosen.delay), 0.0
        for mode in chosen.modes:
            found = run("benchmarks.geo_driver", [chosen.workload, mode, str(chosen.seconds)], link)
            base = base or found["samples/s"]
            figures = ", ".join(f"{name} {value:,.4g}" for name, value in found.items())
            ratio = f"{found['samples/s'] / base:.2f} of {chosen.modes[0]}"
            print(f"{chosen.workload}, {link}, {mode}: {figures} ({ratio})", flush=True)


if __name__ == "__main__":
    main()
