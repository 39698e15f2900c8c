"""One message on a socket: a small head and arrays, nothing pickled.

``[magic u32 | head bytes u32 | array bytes u64] head | pad  array 0 | pad  array 1 | pad ...``

The head (msgpack) carries the caller's values and the dtype and shape of every array. What comes before the arrays is
as long as the first read, in nearly all messages. All array bytes are read by one more call into a buffer that exists
already: a blocking socket moves them without the GIL (docs/adr/0501). Between processes of one machine they may lie in
memory that both see (docs/adr/0507): then there is another magic, and the head says where.

Before the first message comes a greeting of fixed size, ``[magic u32 | token 32 bytes]``: nothing a stranger sends is
parsed, and nothing is allocated for it.
"""

from __future__ import annotations

import hmac
import math
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt

from heterps.errors import ClusterError
from heterps.large_pages import large_block
from heterps.runtime.batch.message_memory import AnswerRoom
from heterps.runtime.wire.shared import LEAST_BYTES, Inbox, Outbox, SharingError, receive_file, send_file

__all__ = ["REFUSED", "WELCOME", "Message", "ReceiveRing", "WireError", "greet", "is_greeted", "receive", "send"]

_HEAD = struct.Struct("<IIQ")
_MAGIC = 0x48505331
_SHARED_MAGIC = 0x48505332  # its arrays lie in the sender's memory
_ANEW_MAGIC = 0x48505333  # as well, and that memory comes with it
_MAGICS = {_MAGIC, _SHARED_MAGIC, _ANEW_MAGIC}
_START = 512  # bytes of the first read; where a head does not fit, of each further one that it needs
_GREETING = struct.Struct("<I32s")
_GREETING_MAGIC = 0x48505347
_ALIGN = 64
_MAX_HEAD = 1 << 24
_MAX_BODY = 1 << 36
_MAX_ARRAYS = 1 << 16
_MAX_DIMENSIONS = 32
_DTYPES = {np.dtype(name).str: np.dtype(name) for name in ("f4", "f8", "u8", "i8", "i4", "u4", "u1", "f2")}
_PAD = bytes(_ALIGN)
Arrays = Sequence[npt.NDArray[Any]]
_Layout = Sequence[tuple[np.dtype[Any], list[int], int]]  # dtype, shape and bytes of each array


class _Writer(threading.local):
    """What writes heads in this thread: one that is made anew for each costs more than what it writes."""

    def __init__(self) -> None:
        self.pack = msgpack.Packer(buf_size=1 << 14).pack


_WRITER = _Writer()


class WireError(ClusterError):
    """What came is no message; where the next one would begin is unknown, so the connection is of no more use."""


class Message(NamedTuple):
    """Values that msgpack knows, whole numbers of 64 bits; arrays; with a request ``room`` for those of its answer."""

    head: Mapping[str, Any]
    arrays: Sequence[npt.NDArray[Any]] = ()
    room: AnswerRoom | None = None


class ReceiveRing:
    """A ring of receive buffers: a message's arrays are views of one, valid for ``depth - 1`` further messages.

    ``allocate`` gives memory of another kind for them, so many bytes.
    """

    def __init__(self, depth: int = 2, allocate: Callable[[int], npt.NDArray[np.uint8]] | None = None) -> None:
        self.is_special = allocate is not None  # then every message is to lie in it, wherever it was before
        self._allocate = allocate or large_block
        self._ring: list[npt.NDArray[np.uint8]] = [np.empty(0, np.uint8) for _ in range(depth)]
        self._next = 0

    def take(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the next buffer, enlarged where needed."""
        slot = self._next
        self._next = (slot + 1) % len(self._ring)
        if len(self._ring[slot]) < nbytes:
            self._ring[slot] = self._allocate(nbytes + nbytes // 4)
        return self._ring[slot][:nbytes]


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN


def send(connection: socket.socket, message: Message, outbox: Outbox | None = None) -> None:
    """Write one message with a single system call where the socket allows it; large arrays to the outbox, if any."""
    arrays = [np.ascontiguousarray(array) for array in message.arrays]
    sizes = [array.nbytes for array in arrays]
    body = sum([_padded(nbytes) for nbytes in sizes])
    put = outbox.put(arrays) if outbox is not None and body >= LEAST_BYTES else None
    if put is not None:
        places, file = put
        connection.sendall(_start(_SHARED_MAGIC if file is None else _ANEW_MAGIC, message.head, arrays, body, places))
        if file is not None:
            send_file(connection, file)
        return
    start = _start(_MAGIC, message.head, arrays, body)
    pieces: list[Any] = [start]
    for array, nbytes in zip(arrays, sizes, strict=True):
        if nbytes:
            pieces.append(array)
        if nbytes % _ALIGN:
            pieces.append(_PAD[: -nbytes % _ALIGN])
    _send_all(connection, pieces, len(start) + body)


def _start(
    magic: int, head: Mapping[str, Any], arrays: Arrays, body: int, places: Sequence[int] | None = None
) -> bytes:
    text: bytes = _WRITER.pack((head, [(array.dtype.str, array.shape) for array in arrays], places))
    start = _HEAD.pack(magic, len(text), body) + text
    return start.ljust(-(-len(start) // _START) * _START, b"\0")


def _send_all(connection: socket.socket, pieces: list[Any], nbytes: int) -> None:
    sent = 0
    if not hasattr(connection, "context"):  # a TLS socket has no sendmsg
        sent = connection.sendmsg(pieces[:64])
        if sent == nbytes:
            return
    for piece in pieces:
        left = memoryview(piece).cast("B")[sent:]
        sent = max(0, sent - memoryview(piece).nbytes)
        if left:
            connection.sendall(left)


WELCOME, REFUSED = b"+", b"-"  # what a caller hears who has shown a token


def greet(connection: socket.socket, token: str) -> None:
    """Show the token of the service that is about to be called, and wait to be let in.

    Raises
    ------
    ConnectionResetError
        Sent away without a word: too many stood at the door. Nothing was asked yet, so it does no harm to come again.
    WireError
        The token is another service's.
    """
    connection.sendall(_GREETING.pack(_GREETING_MAGIC, token.encode()))
    word = connection.recv(1)
    if not word:
        raise ConnectionResetError("sent away before the token was looked at")
    if word != WELCOME:
        raise WireError("the token is not that of the service there")


def is_greeted(connection: socket.socket, token: str, until: float) -> bool:
    """Read a greeting and return whether its token is the right one.

    Parameters
    ----------
    connection
        Where a caller has just come in.
    token
        What it must show.
    until
        Moment of the monotonic clock by which all of it must have come, in however many pieces.

    Raises
    ------
    WireError
        When the caller says something else; a token that is wrong is no greeting either but returns False.
    """
    got = bytearray(_GREETING.size)
    missing = len(got)
    while missing:
        connection.settimeout(max(1e-3, until - time.monotonic()))
        n = connection.recv_into(memoryview(got)[len(got) - missing :])
        if n == 0:
            raise ConnectionResetError("the caller closed the connection before it had shown its token")
        missing -= n
    magic, shown = _GREETING.unpack(got)
    if magic != _GREETING_MAGIC:
        raise WireError("this is no greeting; does someone take this port for another service?")
    return hmac.compare_digest(shown, token.encode())


def receive(connection: socket.socket, buffers: ReceiveRing, inbox: Inbox | None = None) -> Message | None:
    """Read one message; None when the other end closed between messages.

    ``inbox``: memory of the other end that its arrays may lie in; they are valid as long as those in the buffers are.

    Raises
    ------
    WireError
        When head and arrays do not fit each other; no memory is taken for arrays before they do. A large buffer is
        the kernel's promise only: pages of it come into being as bytes arrive.
    """
    start = bytearray(_START)
    if not _read(connection, memoryview(start), at_start=True):
        return None
    magic, head_bytes, body_bytes = _HEAD.unpack_from(start)
    if magic not in _MAGICS or (inbox is None and magic != _MAGIC) or head_bytes > _MAX_HEAD or body_bytes > _MAX_BODY:
        raise WireError("a peer sent something that is not a HeterPS message; is another service on this port?")
    end = _HEAD.size + head_bytes
    if end > _START:
        start += bytes(-(-end // _START) * _START - _START)
        _read(connection, memoryview(start)[_START:])
    head, layout, places = _parse(memoryview(start)[_HEAD.size : end])
    if sum([_padded(nbytes) for _, _, nbytes in layout]) != body_bytes:
        raise WireError("a peer sent arrays that do not fill their message")
    if magic != _MAGIC and inbox is not None:
        return Message(head, _found(connection, inbox, magic == _ANEW_MAGIC, places, layout, buffers))
    body = _room(buffers, body_bytes)
    _read(connection, body.data)
    return Message(head, _views(layout, body))


def _room(buffers: ReceiveRing, nbytes: int) -> npt.NDArray[np.uint8]:
    try:
        return buffers.take(nbytes)
    except (MemoryError, OSError):
        raise WireError(f"a peer sent {nbytes} bytes, for which there is no memory") from None


def _found(
    connection: socket.socket, inbox: Inbox, anew: bool, places: Any, layout: _Layout, buffers: ReceiveRing
) -> list[npt.NDArray[Any]]:
    """Return arrays that lie in the other end's memory; copied where buffers are of a kind that copies are for."""
    places = places if isinstance(places, list) and len(places) == len(layout) else [None] * len(layout)
    try:
        if anew:
            inbox.take(receive_file(connection))
        found = [inbox.at(place, *entry) for place, entry in zip(places, layout, strict=True)]
    except SharingError as error:
        raise WireError(f"a peer sent a message that cannot be read: {error}") from None
    if not buffers.is_special:
        return found
    copies = _views(layout, _room(buffers, sum(_padded(nbytes) for _, _, nbytes in layout)))
    for copy, array in zip(copies, found, strict=True):
        np.copyto(copy, array)
    return copies


def _parse(text: memoryview) -> tuple[dict[str, Any], _Layout, Any]:
    """Return a head, what it says of the arrays, and where they are, if they do not follow."""
    try:
        head, arrays, places = msgpack.unpackb(text)
    except (ValueError, TypeError):
        raise WireError("a peer sent a head that cannot be read") from None
    if not isinstance(head, dict) or not isinstance(arrays, list) or len(arrays) > _MAX_ARRAYS:
        raise WireError("a peer sent a head that does not list its arrays")
    return head, [_layout(entry) for entry in arrays], places


def _layout(entry: Any) -> tuple[np.dtype[Any], list[int], int]:
    name, shape = entry if type(entry) is list and len(entry) == 2 else (None, None)
    if type(name) is not str or type(shape) is not list or len(shape) > _MAX_DIMENSIONS:
        raise WireError("a peer sent an array without a proper dtype and shape")
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise WireError(f"a peer sent an array of dtype {name[:20]!r}, which is not used here")
    for size in shape:
        if type(size) is not int or not 0 <= size <= _MAX_BODY:
            raise WireError("a peer sent an array without a proper dtype and shape")
    nbytes = math.prod(shape) * dtype.itemsize
    # Without its zeros, too: NumPy refuses shapes whose other sizes are too large.
    if (nbytes or math.prod(filter(None, shape)) * dtype.itemsize) > _MAX_BODY:
        raise WireError("a peer sent an array that is too large")
    return dtype, shape, nbytes


def _views(layout: _Layout, body: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
    views, offset = [], 0
    for dtype, shape, nbytes in layout:
        views.append(np.ndarray(shape, dtype, body, offset))
        offset += _padded(nbytes)
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
