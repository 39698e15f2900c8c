"""Memory that two processes of one machine see, for the arrays of their messages: the kernel copies nothing.

Either end of a connection has an :class:`Outbox`, memory of its own that it gives to the other end (a ``memfd`` over a
Unix socket) with the first message that lies in it, and anew when it has become too small. It writes arrays there, and
then says in the message where: whoever reads of a message finds it complete. A process that dies leaves nothing behind,
as the memory has no name; who was cut off keeps what it has, and whoever connects anew gets other memory.
"""

from __future__ import annotations

import array
import fcntl
import mmap
import os
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.runtime.batch.message_memory import MessageMemory

__all__ = ["LEAST_BYTES", "Inbox", "Outbox", "SharingError", "receive_file", "send_file"]

LEAST_BYTES = 1 << 16  # what is less goes through the socket: the kernel copies it while it carries the head
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_PAGE = mmap.PAGESIZE
U8 = npt.NDArray[np.uint8]


class SharingError(Exception):
    """Memory that came, or a place in it, cannot be used."""


class Outbox(MessageMemory):
    """Memory into which one end of a connection writes the arrays of its messages, in turn to one of two halves.

    The other end may read a message until the next one but one: as each end answers before it is asked again, its half
    is written to when nobody reads it any more. Used by one thread at a time.
    """

    parts = 2  # as in a ring of receive buffers

    def __init__(self) -> None:
        super().__init__()
        self._usable = True  # False where memory cannot be shared: everything goes through the socket
        self._file: int | None = None  # of the memory, as long as the other end does not have it

    def put(self, arrays: Sequence[npt.NDArray[Any]]) -> tuple[list[int], int | None] | None:
        """Write a message but for arrays that were made here; return where each is, and the file to give to the other
        end if it does not have it yet.

        The file is the caller's to close. None: there is no memory to be had.
        """
        places = [self._place(array) for array in arrays]
        if self._usable and None in places:  # it is larger than those before it
            self.end()
            self.enlarge(self._most + self._most // 4)
            places = [self._place(array) for array in arrays]
        if None in places:
            return None
        file, self._file = self._file, None
        return [place for place in places if place is not None], file

    def _place(self, array: npt.NDArray[Any]) -> int | None:
        """Return where an array lies; copied if it is not there yet."""
        nbytes = array.nbytes
        if nbytes and self._begun and array.base is self._memory:
            here = _address(array) - _address(self._memory)
            if self._first <= here and here + nbytes <= self._next:
                return here
        place = self._take(nbytes)
        if place is not None and nbytes:
            np.copyto(np.ndarray(array.shape, array.dtype, self._memory, place), array)
        return place

    def enlarge(self, nbytes: int) -> None:
        """Take new memory; the old goes when its last reader lets it go."""
        if not self._usable:
            return
        self._forget_file()
        self._memory = np.empty(0, np.uint8)
        size = -(-nbytes // _PAGE) * _PAGE * self.parts
        try:
            file = os.memfd_create("heterps", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:
            self._usable = False
            return
        try:
            os.posix_fallocate(file, 0, size)  # now or never: a page that is lacking later would end the process
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            self._memory, self._file = np.frombuffer(mmap.mmap(file, size), np.uint8), file
        except OSError:
            os.close(file)
            self._usable = False

    def _forget_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self._forget_file()


def _address(array: npt.NDArray[Any]) -> int:
    """Return where an array lies; ``array.ctypes`` would make three objects for it."""
    address: int = array.__array_interface__["data"][0]
    return address


class Inbox:
    """The other end's outbox, as far as it has been given to this one."""

    def __init__(self) -> None:
        self._memory: U8 = np.empty(0, np.uint8)

    def take(self, file: int) -> None:
        """Take memory that came, in place of what came before; the file is closed.

        Raises
        ------
        SharingError
            It could be made smaller under its reader, whom that would end.
        """
        try:
            if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
                raise SharingError("its memory could be cut short")
            self._memory = np.frombuffer(mmap.mmap(file, os.fstat(file).st_size), np.uint8)
        except (OSError, ValueError) as error:
            raise SharingError(f"its memory cannot be used: {error}") from None
        finally:
            os.close(file)

    def at(self, start: object, dtype: np.dtype[Any], shape: Sequence[int], nbytes: int) -> npt.NDArray[Any]:
        """Return an array of a message, where the other end says that it is."""
        if type(start) is not int or not 0 <= start <= len(self._memory) - nbytes or start % dtype.itemsize:
            raise SharingError("its arrays lie outside of its memory")
        return np.ndarray(shape, dtype, self._memory, start)


def send_file(connection: socket.socket, file: int) -> None:
    """Send a file and close it; it follows the message that speaks of it, with a byte of its own."""
    try:
        connection.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    finally:
        os.close(file)


def receive_file(connection: socket.socket) -> int:
    """Take the file that follows a message.

    Raises
    ------
    SharingError
        There is none.
    """
    files = array.array("i")
    space = socket.CMSG_SPACE(files.itemsize)
    _, found, _, _ = connection.recvmsg(1, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in found:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    for file in files[1:]:
        os.close(file)
    if not files:
        raise SharingError("its memory did not come")
    return files[0]
