"""One message on a socket: a small JSON head and arrays, nothing pickled.

``[magic u32 | head bytes u32 | array bytes u64] head  array 0 | pad | array 1 | pad ...``

The head carries the caller's values and the dtype and shape of every array. All array bytes are read by one call into a
buffer that exists already: a blocking socket moves them without the GIL (docs/adr/0501).
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import ClusterError

__all__ = ["Buffers", "Message", "receive", "send"]

_HEAD = struct.Struct("<IIQ")
_MAGIC = 0x48505331
_ALIGN = 64
_MAX_HEAD = 1 << 24
_MAX_BODY = 1 << 36
_DTYPES = {np.dtype(name).str for name in ("f4", "f8", "u8", "i8", "i4", "u4", "u1", "f2")}
_PAD = bytes(_ALIGN)


class Message(NamedTuple):
    """Values that fit JSON, and arrays."""

    head: Mapping[str, Any]
    arrays: Sequence[npt.NDArray[Any]] = ()


class Buffers:
    """A ring of receive buffers: a message's arrays are views of one, valid for ``depth - 1`` further messages."""

    def __init__(self, depth: int = 2) -> None:
        self._ring = [np.empty(0, np.uint8) for _ in range(depth)]
        self._next = 0

    def take(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the next buffer, enlarged where needed."""
        slot = self._next
        self._next = (slot + 1) % len(self._ring)
        if len(self._ring[slot]) < nbytes:
            self._ring[slot] = np.empty(nbytes + nbytes // 4, np.uint8)
        return self._ring[slot][:nbytes]


def _padding(nbytes: int) -> int:
    return -nbytes % _ALIGN


def send(connection: socket.socket, message: Message) -> None:
    """Write one message with a single system call where the socket allows it."""
    arrays = [np.ascontiguousarray(array) for array in message.arrays]
    head = dict(message.head, _arrays=[(array.dtype.str, array.shape) for array in arrays])
    text = json.dumps(head, separators=(",", ":")).encode()
    pieces: list[memoryview | bytes] = []
    for array in arrays:
        pieces.append(array.reshape(-1).view(np.uint8).data)
        pieces.append(_PAD[: _padding(array.nbytes)])
    body = sum(map(len, pieces))
    _send_all(connection, [_HEAD.pack(_MAGIC, len(text), body) + text, *(p for p in pieces if len(p))])


def _send_all(connection: socket.socket, pieces: list[memoryview | bytes]) -> None:
    if not hasattr(connection, "context"):  # a TLS socket has no sendmsg
        sent = connection.sendmsg(pieces[:64])
        for piece in pieces:
            if sent < len(piece):
                connection.sendall(memoryview(piece)[sent:])
                sent = 0
            else:
                sent -= len(piece)
        return
    for piece in pieces:
        connection.sendall(piece)


def receive(connection: socket.socket, buffers: Buffers) -> Message | None:
    """Read one message; None when the other end closed between messages."""
    start = bytearray(_HEAD.size)
    if not _read(connection, memoryview(start), at_start=True):
        return None
    magic, head_bytes, body_bytes = _HEAD.unpack(start)
    if magic != _MAGIC or head_bytes > _MAX_HEAD or body_bytes > _MAX_BODY:
        raise ClusterError("a peer sent something that is not a HeterPS message; is another service on this port?")
    text = bytearray(head_bytes)
    _read(connection, memoryview(text))
    head = json.loads(text.decode())
    body = buffers.take(body_bytes)
    _read(connection, body.data)
    return Message(head, _views(head.pop("_arrays"), body))


def _views(layout: list[tuple[str, list[int]]], body: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
    views, offset = [], 0
    for dtype, shape in layout:
        if dtype not in _DTYPES:
            raise ClusterError(f"a peer sent an array of dtype {dtype!r}, which is not used here")
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        if any(d < 0 for d in shape) or offset + nbytes > len(body):
            raise ClusterError("a peer sent an array that does not fit its message")
        views.append(body[offset : offset + nbytes].view(dtype).reshape(shape))
        offset += nbytes + _padding(nbytes)
    return views


def _read(connection: socket.socket, view: memoryview, at_start: bool = False) -> bool:
    flags = 0 if hasattr(connection, "context") else socket.MSG_WAITALL
    missing = len(view)
    while missing:
        n = connection.recv_into(view[len(view) - missing :], missing, flags)
        if n == 0:
            if at_start and missing == len(view):
                return False
            raise ConnectionResetError("the peer closed the connection in the middle of a message")
        missing -= n
    return True
