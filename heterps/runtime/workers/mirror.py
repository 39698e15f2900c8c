"""The backup of a shard host, as its primary sees it: first its rows are copied there, then every request is forwarded.

One thread does both, so that a backup hears everything in one order:

1. All rows go over, some at a time and no faster than ``heterps.replicas.copy-rate``, while pulls and pushes go on;
   then what changed meanwhile, again and again, until little is left.
2. For a moment nothing is applied: the rest of the rows, and the state beside them, are taken down as they are.
3. From there on requests are forwarded, those that wait together in one message, and what the backup confirms is told
   to the host, which then answers.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Protocol

from heterps.errors import RunError
from heterps.protocol.words.decisions import Confirm
from heterps.protocol.words.events import AbortAsked, CopyLost, Event
from heterps.protocol.words.instructions import Attach
from heterps.runtime.config import settings
from heterps.runtime.own_threads import start_thread
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.peer import PeerLost, connect
from heterps.runtime.wire.replica_packing import (
    Filling,
    Forwarded,
    pack_fill,
    pack_forwards,
    pack_some_rows,
    unpack_confirm,
)
from heterps.runtime.wire.service import Address
from heterps.tables.live.shard import Shard
from heterps.tables.live.twin import RowsOut, SomeRows

__all__ = ["Mirror", "Mirrored"]

PIECE_ROWS = 8192  # copied at once
ROUNDS = 6  # of copying what changed, before what is left is taken down while nothing is applied
FEW_ROWS = 20_000  # that can be taken down in a moment
MOST_TOGETHER, MOST_BYTES = 64, 8 << 20  # of forwarded requests in one message
_AGAIN_S = 0.2  # before a backup that did not answer is asked a second and last time


class Mirrored(Protocol):
    """A shard host that has a backup."""

    def hand_over(self, mirror: Mirror) -> None:
        """Stop for a moment, have the mirror take down what is left, and forward from there on."""

    def confirmed(self, confirm: Confirm) -> None:
        """The backup has followed so far."""


class Mirror:
    """Fills one backup and forwards to it, in a thread of its own.

    Parameters
    ----------
    host, shard
        Whose backup it is, and its tables.
    attach
        What the run asked for.
    address, tls
        Where the backup is.
    report
        Takes events for the run.
    """

    def __init__(
        self,
        host: Mirrored,
        shard: Shard,
        attach: Attach,
        address: Address,
        tls: ssl.SSLContext | None,
        report: Callable[[Event], None],
    ) -> None:
        self.attach = attach
        self._host, self._report = host, report
        self._rows = RowsOut(shard, f"backup {attach.backup}")
        self._peer = connect(address, tls=tls)
        self._todo: SimpleQueue[SomeRows | Filling | Forwarded | None] = SimpleQueue()  # None: no more
        self._closed = threading.Event()  # nobody wants it to go on
        self._rate = settings().copy_rate

    def start(self) -> None:
        """Begin to copy."""
        start_thread(f"mirror-{self.attach.backup}", self._work, failed=self._failed)

    def close(self) -> None:
        """Go on without this backup; may be called twice."""
        self._closed.set()
        self._todo.put(None)

    # --- called by the host

    def take_down(self) -> None:
        """Note what is left of the rows, while nothing is applied."""
        for some in self._rows.read(PIECE_ROWS):
            self._todo.put(some)
        self._rows.end()

    def fill(self, filling: Filling) -> None:
        """The state that belongs to what was taken down; requests after it are forwarded."""
        self._todo.put(filling)

    def forward(self, forwarded: Forwarded) -> None:
        """Forward a request behind those before it."""
        self._todo.put(forwarded)

    # --- in its thread

    def _work(self) -> None:
        try:
            self._copy()
            if not self._closed.is_set():
                self._host.hand_over(self)
            while not self._closed.is_set() and (first := self._todo.get()) is not None:
                self._deliver(first)
        except PeerLost:
            if not self._closed.is_set():
                self._report(CopyLost(self.attach.backup))
        finally:
            self._rows.end()
            self._peer.close()

    def _failed(self, error: Exception) -> None:
        """What the backup raised, it will raise again: without it the run would go on unprotected."""
        if not self._closed.is_set():
            self._report(AbortAsked(f"a shard host's backup cannot follow it: {type(error).__name__}: {error}"))

    def _copy(self) -> None:
        """Copy all rows, then what changed, until that is little or copying gains nothing."""
        for _ in range(ROUNDS):
            copied = sum(map(self._send_rows, self._paced(self._rows.read(PIECE_ROWS))))
            if copied <= FEW_ROWS:
                return

    def _paced(self, pieces: Iterator[SomeRows]) -> Iterator[SomeRows]:
        """Let pulls and pushes have the network: no more bytes a second than the setting says."""
        begin, sent = monotonic(), 0
        for some in pieces:
            if self._closed.wait(max(0.0, sent / self._rate - (monotonic() - begin))):
                return
            yield some
            sent += some.nbytes

    def _send_rows(self, some: SomeRows) -> int:
        self._call("rows", pack_some_rows(some))
        return len(some.rows["id"])

    def _deliver(self, first: SomeRows | Filling | Forwarded) -> None:
        if isinstance(first, SomeRows):
            self._send_rows(first)
        elif isinstance(first, Filling):
            self._confirm(self._call("fill", pack_fill(first, self.attach.copy)))
        else:
            self._confirm(self._call("forward", pack_forwards(self._together(first), self.attach.copy)))

    def _together(self, first: Forwarded) -> list[Forwarded]:
        """Return all that waits, up to a limit: a message costs the same with many."""
        found, nbytes = [first], first.nbytes
        while len(found) < MOST_TOGETHER and nbytes < MOST_BYTES:
            try:
                following = self._todo.get_nowait()
            except Empty:
                break
            if not isinstance(following, Forwarded):  # the end: rows and state all come before the first of these
                self._todo.put(following)
                break
            found.append(following)
            nbytes += following.nbytes
        return found

    def _confirm(self, reply: Message) -> None:
        confirm = unpack_confirm(reply)
        if confirm.primary != self.attach.copy:
            raise RunError(f"a backup answered for copy {confirm.primary}, not {self.attach.copy}")
        self._host.confirmed(confirm)

    def _call(self, method: str, message: Message) -> Message:
        try:
            return self._peer.call(method, message.arrays, **message.head)
        except PeerLost:
            if self._closed.wait(_AGAIN_S):
                raise
            return self._peer.call(method, message.arrays, **message.head)
