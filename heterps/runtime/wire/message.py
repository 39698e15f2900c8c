"""One message on a socket: a small JSON head and arrays, nothing pickled.

``[magic u32 | head bytes u32 | array bytes u64] head  array 0 | pad | array 1 | pad ...``

The head carries the caller's values and the dtype and shape of every array. All array bytes are read by one call into a
buffer that exists already: a blocking socket moves them without the GIL (docs/adr/0501). Between processes of one
machine they may lie in memory that both see (docs/adr/0507): then there is another magic, and the head says where.

Before the first message comes a greeting of fixed size, ``[magic u32 | token 32 bytes]``: nothing a stranger sends is
parsed, and nothing is allocated for it.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import ClusterError
from heterps.runtime.batch.message_memory import AnswerRoom
from heterps.runtime.wire.shared import LEAST_BYTES, Inbox, Outbox, SharingError, receive_start, send_start

__all__ = ["REFUSED", "WELCOME", "Message", "ReceiveRing", "WireError", "greet", "is_greeted", "receive", "send"]

_HEAD = struct.Struct("<IIQ")
_MAGIC = 0x48505331
_SHARED_MAGIC = 0x48505332
_WHERE = "_at"  # in a head: where the arrays lie in the sender's memory
_GREETING = struct.Struct("<I32s")
_GREETING_MAGIC = 0x48505347
_ALIGN = 64
_MAX_HEAD = 1 << 24
_MAX_BODY = 1 << 36
_MAX_ARRAYS = 1 << 16
_MAX_DIMENSIONS = 32
_ITEMSIZES = {np.dtype(name).str: np.dtype(name).itemsize for name in ("f4", "f8", "u8", "i8", "i4", "u4", "u1", "f2")}
_PAD = bytes(_ALIGN)
_encode = json.JSONEncoder(separators=(",", ":")).encode
_Layout = Sequence[tuple[str, tuple[int, ...], int]]  # dtype, shape and bytes of each array


class WireError(ClusterError):
    """What came is no message; where the next one would begin is unknown, so the connection is of no more use."""


class Message(NamedTuple):
    """Values that fit JSON, and arrays; with a request ``room`` for the arrays of its answer."""

    head: Mapping[str, Any]
    arrays: Sequence[npt.NDArray[Any]] = ()
    room: AnswerRoom | None = None


class ReceiveRing:
    """A ring of receive buffers: a message's arrays are views of one, valid for ``depth - 1`` further messages.

    ``allocate`` gives memory of another kind for them, so many bytes.
    """

    def __init__(self, depth: int = 2, allocate: Callable[[int], npt.NDArray[np.uint8]] | None = None) -> None:
        self.is_special = allocate is not None  # then every message is to lie in it, wherever it was before
        self._allocate = allocate or _plain
        self._ring: list[npt.NDArray[np.uint8]] = [np.empty(0, np.uint8) for _ in range(depth)]
        self._next = 0

    def take(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the next buffer, enlarged where needed."""
        slot = self._next
        self._next = (slot + 1) % len(self._ring)
        if len(self._ring[slot]) < nbytes:
            self._ring[slot] = self._allocate(nbytes + nbytes // 4)
        return self._ring[slot][:nbytes]


def _plain(nbytes: int) -> npt.NDArray[np.uint8]:
    return np.empty(nbytes, np.uint8)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN


def send(connection: socket.socket, message: Message, outbox: Outbox | None = None) -> None:
    """Write one message with a single system call where the socket allows it; large arrays to the outbox, if any."""
    arrays = [np.ascontiguousarray(array) for array in message.arrays]
    head = {**message.head, "_arrays": [(array.dtype.str, array.shape) for array in arrays]}
    body = sum([_padded(array.nbytes) for array in arrays])
    put = outbox.put(arrays) if outbox is not None and body >= LEAST_BYTES else None
    if put is not None:
        head[_WHERE], file = put
        send_start(connection, _start(_SHARED_MAGIC, head, body), file)
        return
    start = _start(_MAGIC, head, body)
    pieces: list[memoryview | bytes] = [start]
    for array in arrays:
        pieces += [array.reshape(-1).view(np.uint8).data] if array.size else []
        pieces += [_PAD[: _padded(array.nbytes) - array.nbytes]] if array.nbytes % _ALIGN else []
    _send_all(connection, pieces, len(start) + body)


def _start(magic: int, head: Mapping[str, Any], body: int) -> bytes:
    text = _encode(head).encode()
    return _HEAD.pack(magic, len(text), body) + text


def _send_all(connection: socket.socket, pieces: list[memoryview | bytes], nbytes: int) -> None:
    if not hasattr(connection, "context"):  # a TLS socket has no sendmsg
        sent = connection.sendmsg(pieces[:64])
        for piece in pieces if sent < nbytes else ():
            if sent < len(piece):
                connection.sendall(memoryview(piece)[sent:])
                sent = 0
            else:
                sent -= len(piece)
        return
    for piece in pieces:
        connection.sendall(piece)


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
    start = bytearray(_HEAD.size)
    if not (_read(connection, memoryview(start), at_start=True) if inbox is None else _open(connection, start, inbox)):
        return None
    magic, head_bytes, body_bytes = _HEAD.unpack(start)
    is_shared = inbox is not None and magic == _SHARED_MAGIC
    if not (is_shared or magic == _MAGIC) or head_bytes > _MAX_HEAD or body_bytes > _MAX_BODY:
        raise WireError("a peer sent something that is not a HeterPS message; is another service on this port?")
    text = bytearray(head_bytes)
    _read(connection, memoryview(text))
    head, layout = _parse(text)
    where = head.pop(_WHERE, None)
    if sum([_padded(nbytes) for _, _, nbytes in layout]) != body_bytes:
        raise WireError("a peer sent arrays that do not fill their message")
    if is_shared and inbox is not None:
        return Message(head, _found(inbox, where, layout, buffers))
    body = _room(buffers, body_bytes)
    _read(connection, body.data)
    return Message(head, _views(layout, body))


def _room(buffers: ReceiveRing, nbytes: int) -> npt.NDArray[np.uint8]:
    try:
        return buffers.take(nbytes)
    except MemoryError:
        raise WireError(f"a peer sent {nbytes} bytes, for which there is no memory") from None


def _found(inbox: Inbox, where: Any, layout: _Layout, buffers: ReceiveRing) -> list[npt.NDArray[Any]]:
    """Return arrays that lie in the other end's memory; copied where buffers are of a kind that copies are for."""
    places = where if isinstance(where, list) and len(where) == len(layout) else [None] * len(layout)
    try:
        pieces = [inbox.at(place, nbytes) for place, (_, _, nbytes) in zip(places, layout, strict=True)]
    except SharingError as error:
        raise WireError(f"a peer sent a message that cannot be read: {error}") from None
    found = [_shaped(piece, entry) for piece, entry in zip(pieces, layout, strict=True)]
    if not buffers.is_special:
        return found
    copies = _views(layout, _room(buffers, sum(_padded(nbytes) for _, _, nbytes in layout)))
    for copy, array in zip(copies, found, strict=True):
        np.copyto(copy, array)
    return copies


def _open(connection: socket.socket, start: bytearray, inbox: Inbox) -> bool:
    """Read the first bytes of a message from a Unix socket, and the memory that comes with them; False at the end."""
    n, files = receive_start(connection, start)
    if not n:
        return False
    for file in files[1:]:
        os.close(file)
    try:
        if files:
            inbox.take(files[0])
    except SharingError as error:
        raise WireError(f"a peer sent what cannot be shared: {error}") from None
    return _read(connection, memoryview(start)[n:])


def _parse(text: bytearray) -> tuple[dict[str, Any], _Layout]:
    """Return a head without its ``_arrays``, and what these say."""
    try:
        head = json.loads(text.decode())
    except (ValueError, RecursionError):
        raise WireError("a peer sent a head that is no JSON") from None
    arrays = head.pop("_arrays", None) if isinstance(head, dict) else None
    if not isinstance(arrays, list) or len(arrays) > _MAX_ARRAYS:
        raise WireError("a peer sent a head that does not list its arrays")
    return head, [_layout(entry) for entry in arrays]


def _layout(entry: Any) -> tuple[str, tuple[int, ...], int]:
    match entry:
        case [str(dtype), list(shape)] if len(shape) <= _MAX_DIMENSIONS and all(map(_is_size, shape)):
            pass
        case _:
            raise WireError("a peer sent an array without a proper dtype and shape")
    itemsize = _ITEMSIZES.get(dtype)
    if itemsize is None:
        raise WireError(f"a peer sent an array of dtype {dtype[:20]!r}, which is not used here")
    nbytes = math.prod(shape) * itemsize
    # Without its zeros, too: NumPy refuses shapes whose other sizes are too large.
    if (nbytes or math.prod(filter(None, shape)) * itemsize) > _MAX_BODY:
        raise WireError("a peer sent an array that is too large")
    return dtype, tuple(shape), nbytes


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_BODY


def _views(layout: _Layout, body: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
    views, offset = [], 0
    for entry in layout:
        nbytes = entry[2]
        views.append(_shaped(body[offset : offset + nbytes], entry))
        offset += _padded(nbytes)
    return views


def _shaped(piece: npt.NDArray[np.uint8], entry: tuple[str, tuple[int, ...], int]) -> npt.NDArray[Any]:
    dtype, shape, _ = entry
    return piece.view(dtype).reshape(shape)


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
