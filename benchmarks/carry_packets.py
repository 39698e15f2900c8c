"""Carry frames between a TAP device with a place's address and its link, late and with some lost.

    python -m benchmarks.carry_packets ADDRESS DELAY_S LOSS

The lab runs it in the namespace of a place.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_SET_DEVICE, _TAP, _PLAIN = 0x400454CA, 0x0002, 0x1000
_EVERY_PROTOCOL, _OUTGOING = 3, 4
_LARGEST = 65_536
_WAITING = 20_000  # frames on their way, one way; more are lost as in a full queue
# What the kernel keeps for a carrier that has no core at the moment: else bursts would be lost that no link loses.
_SET_ROOM, _ROOM = 33, 1 << 26  # SO_RCVBUFFORCE


def _tap(address: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH", b"tap0", _TAP | _PLAIN))
    for words in (("addr", "add", f"{address}/24", "dev", "tap0"), ("link", "set", "tap0", "up")):
        subprocess.run(["ip", *words], check=True)
    subprocess.run(["ip", "link", "set", "tap0", "txqueuelen", str(_WAITING)], check=True)
    subprocess.run(["ip", "link", "set", "eth0", "promisc", "on"], check=True)
    # Without this the kernel answers for the address at the link, and packets would go round the carrier.
    with open("/proc/sys/net/ipv4/conf/eth0/arp_ignore", "w") as file:
        file.write("8")
    return device


def carry(address: str, delay_s: float, loss: float) -> None:
    """Carry until killed. Frames leave in the order in which they came: the delay is the same for all."""
    tap = _tap(address)
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    link.setsockopt(socket.SOL_SOCKET, _SET_ROOM, _ROOM)
    link.bind(("eth0", 0))
    link.setblocking(False)
    out: deque[tuple[float, bytes]] = deque()
    home: deque[tuple[float, bytes]] = deque()
    print("ready", flush=True)
    while True:
        due = min((queue[0][0] for queue in (out, home) if queue), default=time.monotonic() + 1)
        ready, _, _ = select.select([tap, link], [], [], max(0.0, due - time.monotonic()))
        now = time.monotonic()
        if tap in ready:
            _take(lambda: os.read(tap, _LARGEST), out, now + delay_s, loss)
        if link in ready:
            _take(lambda: _received(link), home, now + delay_s, loss)
        now = time.monotonic()
        while out and out[0][0] <= now:
            _give(lambda: link.send(out[0][1]))
            out.popleft()
        while home and home[0][0] <= now:
            _give(lambda: os.write(tap, home[0][1]))
            home.popleft()


def _received(link: socket.socket) -> bytes:
    frame, where = link.recvfrom(_LARGEST)
    return b"" if where[2] == _OUTGOING else frame


def _take(read: Callable[[], bytes], queue: deque[tuple[float, bytes]], due: float, loss: float) -> None:
    with suppress(BlockingIOError):
        for _ in range(64):
            frame = read()
            if frame and len(queue) < _WAITING and random.random() >= loss:
                queue.append((due, frame))


def _give(write: Callable[[], int]) -> None:
    with suppress(OSError):  # a full queue loses frames
        write()


if __name__ == "__main__":
    carry(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
