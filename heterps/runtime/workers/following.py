"""A backup: takes rows and state of its primary, then does what is forwarded to it, in the primary's order."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from heterps.protocol.host.state import HostState
from heterps.protocol.words.decisions import Apply, Confirm, Decision, Keep, Take
from heterps.protocol.words.messages import Push, StoreGroup
from heterps.runtime.batch.payload import PushedGradients, StoredDense
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.replica_packing import (
    Filling,
    Forwarded,
    pack_confirm,
    unpack_fill,
    unpack_forwards,
    unpack_some_rows,
)
from heterps.runtime.wire.service import Method
from heterps.tables import Shard
from heterps.tables.live.twin import take_rows

__all__ = ["Backup", "Following"]


class Backup(Protocol):
    """A copy of a shard host that follows another."""

    state: HostState
    lock: threading.RLock

    def tables(self) -> Shard:
        """Return its tables."""

    def begin_as(self, filling: Filling) -> None:
        """Be what the primary was at a moment; its rows and dense parameters are here already."""

    def carry_out(self, decision: Decision, payload: Any) -> None:
        """Carry out a decision with the gradients that belong to it."""


class Following:
    """What a copy does while it is a backup, under its lock: nobody else calls a backup.

    It is handed the copy with each call: were it to hold it, tables would stay until a collection.
    """

    def __init__(self) -> None:
        # Gradients of requests whose turn has not come; between two messages in arrays of their own.
        self._arrived: dict[Push | StoreGroup, PushedGradients | StoredDense] = {}

    def methods(self, backup: Backup) -> Mapping[str, Method]:
        """What its primary may call."""
        calls = {"rows": self._on_rows, "fill": self._on_fill, "forward": self._on_forward}
        return {name: partial(call, backup) for name, call in calls.items()}

    def _on_rows(self, backup: Backup, message: Message) -> Message:
        with backup.lock:
            if not backup.state.replica.filled and not backup.state.serving:  # else late: it has them, and newer ones
                take_rows(backup.tables(), unpack_some_rows(message))
        return Message({})

    def _on_fill(self, backup: Backup, message: Message) -> Message:
        filling, primary = unpack_fill(message)
        state = backup.state
        with backup.lock:
            if not state.replica.filled and not state.serving and filling.fill.term >= state.term:
                _set_dense(backup.tables(), filling)
                backup.begin_as(filling)
            return self._follow(backup, state.handle(filling.fill, primary), primary)

    def _on_forward(self, backup: Backup, message: Message) -> Message:
        forwards, primary = unpack_forwards(message)
        with backup.lock:
            before = set(self._arrived)
            for each in forwards:
                self._expect(backup.state, each)
                answer = self._follow(backup, backup.state.handle(each.forward, primary), primary)
            for request in self._arrived.keys() - before:  # beyond the reply: the connection uses its buffers again
                self._arrived[request] = self._arrived[request].copy()
            return answer

    def _expect(self, state: HostState, each: Forwarded) -> None:
        """Keep gradients until their turn; of what was done before, or is refused, nothing is needed."""
        is_ahead = not state.serving and each.forward.seq > state.replica.done
        if isinstance(each.forward.request, Push | StoreGroup) and each.payload is not None and is_ahead:
            self._arrived[each.forward.request] = each.payload

    def _follow(self, backup: Backup, decisions: list[Decision], primary: int) -> Message:
        """Do what is decided; return how far it has come."""
        confirm = Confirm(primary, backup.state.copy, backup.state.term, 0)  # says nothing yet
        for decision in decisions:
            match decision:
                case Confirm():
                    confirm = decision
                case Apply(request) | Keep(request) | Take(request):
                    backup.carry_out(decision, self._arrived.pop(request))
                case _:
                    backup.carry_out(decision, None)
        return pack_confirm(confirm)


def _set_dense(shard: Shard, filling: Filling) -> None:
    with shard.dense.lock:
        np.copyto(shard.dense.values, filling.dense)
        np.copyto(shard.dense.slots, filling.slots)
