"""A small network on this machine: a namespace for each process, links of a chosen rate, delay and loss between them.

Every place has an address of its own and one link to a hub. Rates are kept by ``tc tbf`` at both ends; where the kernel
has no netem, delay and loss are made by a process of ours that carries packets between two TUN devices, and says how
much of a core it takes. Bytes are counted by the kernel at the place's end of its link. Needs root.

    python -m benchmarks.netlab        # what links of this lab really do
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from benchmarks.delay_link import DelayLink

__all__ = ["Lab", "Link", "LinkBytes"]

BURST_MS = 4  # a bucket of so many milliseconds at full rate
_NET = "10.77.0"


@dataclass(frozen=True)
class Link:
    """What a place's link to the hub is like, each way: from one place to another two of them are passed.

    ``mbit`` None: as fast as the machine.
    """

    mbit: float | None = None
    delay_ms: float = 0.0
    loss: float = 0.0

    def __str__(self) -> str:
        rate = "no limit" if self.mbit is None else f"{self.mbit:g} Mbit/s"
        return (
            rate
            + (f", {self.delay_ms:g} ms" if self.delay_ms else "")
            + (f", {self.loss:.1%} lost" if self.loss else "")
        )


@dataclass(frozen=True)
class LinkBytes:
    """What went through a place's link, out of it and into it."""

    sent: int
    received: int

    def __sub__(self, other: LinkBytes) -> LinkBytes:
        return LinkBytes(self.sent - other.sent, self.received - other.received)


class Lab:
    """Places with a link each; a context manager that leaves nothing behind.

    Parameters
    ----------
    places
        Their names.
    link
        What all their links are like.
    """

    def __init__(self, places: Sequence[str], link: Link) -> None:
        self.places, self.link = tuple(places), link
        self._prefix = f"hps{os.getpid()}"
        self._hub = f"{self._prefix}-hub"
        self._started: list[subprocess.Popen[Any]] = []
        self._delays: list[DelayLink] = []

    def __enter__(self) -> Lab:
        try:
            self._ip("netns", "add", self._hub)
            self._in(self._hub, "ip", "link", "add", "bridge", "type", "bridge")
            self._in(self._hub, "ip", "link", "set", "bridge", "up")
            for number, place in enumerate(self.places):
                self._connect(number, place)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, number: int, place: str) -> None:
        name, end = self._name(place), f"to{number}"
        self._ip("netns", "add", name)
        self._in(name, "ip", "link", "set", "lo", "up")
        self._in(self._hub, "ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._in(self._hub, "ip", "link", "set", end, "master", "bridge", "up")
        self._in(name, "ip", "link", "set", "eth0", "up")
        if self.link.delay_ms or self.link.loss:
            self._delays.append(DelayLink(name, self.address(place), self.link.delay_ms / 1000, self.link.loss))
        else:
            self._in(name, "ip", "addr", "add", f"{self.address(place)}/24", "dev", "eth0")
        if self.link.mbit is not None:
            burst = max(int(self.link.mbit * 1e6 / 8 * BURST_MS / 1000), 16_384)
            shape = ("rate", f"{self.link.mbit}mbit", "burst", str(burst), "latency", "200ms")
            self._in(name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *shape)
            self._in(self._hub, "tc", "qdisc", "add", "dev", end, "root", "tbf", *shape)

    def address(self, place: str) -> str:
        """Return the address of a place."""
        return f"{_NET}.{self.places.index(place) + 1}"

    def start(self, place: str, words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program at a place; it ends with the lab."""
        process = subprocess.Popen(["ip", "netns", "exec", self._name(place), *words], **options)
        self._started.append(process)
        return process

    def bytes(self) -> dict[str, LinkBytes]:
        """Return what went through each place's link so far, as its end at the hub counts it."""
        told = {each["ifname"]: each["stats64"] for each in json.loads(self._in(self._hub, "ip", "-j", "-s", "link"))}
        ends = {place: told[f"to{number}"] for number, place in enumerate(self.places)}
        return {place: LinkBytes(end["rx"]["bytes"], end["tx"]["bytes"]) for place, end in ends.items()}

    @property
    def carriers(self) -> list[float]:
        """Shares of a core that the processes took that make delay and loss."""
        return [delay.core_share for delay in self._delays]

    def close(self) -> None:
        """End what was started here, and remove the network."""
        for process in reversed(self._started):
            process.kill()
        for process in self._started:
            process.wait()
        for delay in self._delays:
            delay.close()
        for name in (*map(self._name, self.places), self._hub):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
        self._started, self._delays = [], []

    def _name(self, place: str) -> str:
        return f"{self._prefix}-{place}"

    def _ip(self, *words: str) -> str:
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout

    def _in(self, name: str, *words: str) -> str:
        return subprocess.run(["ip", "netns", "exec", name, *words], check=True, capture_output=True, text=True).stdout


_TAKE = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000)); print("ready", flush=True)
connection, _ = server.accept()
while connection.recv(1 << 16): pass
"""
_GIVE = """
import socket, sys, time
connection, block = socket.create_connection((sys.argv[1], 5000)), bytes(1 << 16)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until: connection.sendall(block)
"""


def measured(link: Link, seconds: float = 3.0) -> tuple[float, float, list[float]]:
    """Return Mbit/s and round trip in ms between two places with such links, and what carriers took of a core."""
    with Lab(("a", "b"), link) as lab:
        taker = lab.start("b", [sys.executable, "-c", _TAKE, lab.address("b")], stdout=subprocess.PIPE, text=True)
        assert taker.stdout is not None
        taker.stdout.readline()
        before, began = lab.bytes()["b"], time.monotonic()
        lab.start("a", [sys.executable, "-c", _GIVE, lab.address("b"), str(seconds)]).wait()
        got, took = lab.bytes()["b"] - before, time.monotonic() - began
        ping = subprocess.run(
            ["ip", "netns", "exec", lab._name("a"), sys.executable, "-c", _PING, lab.address("b")],
            capture_output=True,
            text=True,
            check=False,
        )
        return 8 * got.received / took / 1e6, float(ping.stdout or "nan"), lab.carriers


_PING = """
import socket, sys, time
times = []
for _ in range(20):
    began = time.perf_counter()
    try: socket.create_connection((sys.argv[1], 9), 2)
    except ConnectionRefusedError: times.append(time.perf_counter() - began)
    except OSError: pass
print(1000 * sorted(times)[len(times) // 2])
"""


def main() -> None:
    """Print what links of the lab do."""
    for link in (Link(), Link(1000), Link(100), Link(100, delay_ms=5), Link(100, delay_ms=5, loss=0.001)):
        rate, trip, carriers = measured(link)
        cores = f", carriers took {', '.join(f'{share:.2f}' for share in carriers)} of a core" if carriers else ""
        print(f"{link!s:30s} {rate:8.1f} Mbit/s, round trip {trip:.2f} ms{cores}", flush=True)


if __name__ == "__main__":
    main()
