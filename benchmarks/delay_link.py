"""Delay and loss on a link, by a process that carries packets from one TUN device to another through a queue."""

from __future__ import annotations

import subprocess
import sys
import time

__all__ = ["DelayLink"]


class DelayLink:
    """The address of a place behind a carrier: ``tun0`` inside, ``eth0`` of the same namespace outside.

    Packets between the place's programs and its link go through the carrier, which holds each for the delay and drops
    some, both ways. The kernel answers nothing by itself: programs see one device with the place's address.

    Parameters
    ----------
    namespace, address
        Of the place.
    delay_s, loss
        One way.
    """

    def __init__(self, namespace: str, address: str, delay_s: float, loss: float) -> None:
        words = [sys.executable, "-m", "benchmarks.carry_packets", address, str(delay_s), str(loss)]
        self._process = subprocess.Popen(["ip", "netns", "exec", namespace, *words], stdout=subprocess.PIPE, text=True)
        self._began = time.monotonic()
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the carrier of {address} did not start")

    @property
    def core_share(self) -> float:
        """Share of a core that it took since it began."""
        with open(f"/proc/{self._process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks / 100 / (time.monotonic() - self._began)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
