"""Batches are received into pinned memory and copied to the device from there: no copy on the host in between."""

from __future__ import annotations

import gc
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import heterps.device.transfer as transfer
from heterps.device import fake, namespace, pinned, to_host
from heterps.device.pinned import pinned_block, received
from heterps.errors import HeterpsError
from heterps.kernels.ops.rows import Rows
from heterps.runtime.wire.message import ReceiveRing, receive, send
from heterps.runtime.wire.packing import pack_step, unpack_outcome, unpack_step
from heterps.runtime.wire.peer import SocketPeer
from heterps.runtime.wire.service import Listener
from heterps.runtime.workers.stage import Flight
from tests.gpu.test_stage_overlap import DEPTH, feeds, last_stage, middle_stage, play, same
from tests.gpu.timed_device import TimedDevice, timed

xp = namespace("fake")


@contextmanager
def staged(patch: pytest.MonkeyPatch) -> Iterator[list[tuple[set[str], set[str]]]]:
    """Note for each copy up the arrays that were copied on the host before, and those that came as they were."""
    found: list[tuple[set[str], set[str]]] = []
    upload = transfer.Lap.upload

    def noted(self: Any) -> None:
        found.append((set(self._layout), set(self._received[1]) if self._received else set()))
        upload(self)

    patch.setattr(transfer.Lap, "upload", noted)
    yield found


@pytest.mark.parametrize("make", [last_stage, middle_stage])
def test_a_batch_that_came_through_a_socket_is_copied_from_where_it_was_received(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, found = make(), []
    listener = Listener(stage, ring=stage.receive_ring)
    peer = SocketPeer(listener.address)
    with staged(monkeypatch) as copied:
        for n in range(4):
            message = pack_step(n, feeds(n))
            found.append(unpack_outcome(peer.call("step", message.arrays, **message.head)))
    listener.close()
    peer.close()
    up = [lap for lap in copied if lap[1]]
    assert len(up) == 4
    assert all(host <= {"params"} for host, _ in up)  # parameters did not come with the batch
    assert all(any(name.startswith("x") for name in there) for _, there in up)
    same(found, play(make("cpu"), 4))


def overlapped(machine: TimedDevice, depth: int) -> None:
    """As many batches at once as a stage takes, received through a ring so deep; the host's writes are watched."""
    stage, flights = last_stage(), deque[Flight]()
    ring = ReceiveRing(depth, stage._receive_buffer)
    here, there = socket.socketpair()
    with here, there:
        for n in range(3 * DEPTH):
            if len(flights) == DEPTH:
                stage.finish(flights.popleft())
            send(here, pack_step(n, feeds(n)))
            got = receive(there, ring)
            assert got is not None
            machine.touch(got.arrays[0], write=True)
            flights.append(stage.begin(*unpack_step(got)))
        for flight in flights:
            stage.finish(flight)


def test_a_buffer_is_left_alone_until_its_batch_is_over() -> None:
    machine = TimedDevice(copy_down=1.0)
    with timed(machine):
        overlapped(machine, DEPTH)
    with timed(machine := TimedDevice(copy_down=1.0)), pytest.raises((HeterpsError, AssertionError), match="pinned"):
        overlapped(machine, DEPTH - 1)


def test_what_is_not_in_a_block_goes_the_long_way() -> None:
    block = pinned_block(xp, 4096)
    inside = block[64:128].view(np.float32)
    assert received({"a": np.ones(4)}) is None
    piece, places = received({"a": inside, "b": np.ones(4), "c": block[256:320]})  # type: ignore[misc]
    assert places == {"a": 0, "c": 192}
    assert piece.size == 256
    assert received({"a": inside, "c": block[4000:4064]}) is None  # most of the piece would be copied for nothing
    assert received({"a": block[64:128].view(np.float32)[::2]}) is None
    assert received({"a": block[64:64]}) is None


def test_arrays_from_both_places_arrive_in_their_order() -> None:
    block = pinned_block(xp, 1024)
    block[:] = np.arange(1024) % 251
    given = {"a": block[128:192].view(np.float32), "b": np.arange(3.0), "c": block[192:200], "d": np.empty(0)}
    with transfer.Transfer(xp, 1).send(given) as lap:
        there = lap.arrive()
        assert list(there) == list(given)
        for name, array in given.items():
            np.testing.assert_array_equal(to_host(there[name]).view(np.uint8), array.view(np.uint8))


def test_a_block_is_forgotten_when_nobody_has_it() -> None:
    gc.collect()
    before = len(pinned._BLOCKS)
    block = pinned_block(xp, 1024)
    view = block[:8].view(np.float32)
    del block
    assert received({"a": view}) is not None
    del view
    gc.collect()
    assert len(pinned._BLOCKS) == before


def test_nobody_can_have_any_amount_of_memory_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(fake._FakeCuda, "alloc_pinned_memory", lambda self, size: asked.append(size) or bytearray(size))
    monkeypatch.setattr(pinned, "MOST_BYTES", 1000)
    assert pinned_block(xp, 1001).size == 1001
    assert pinned_block(np, 10).size == 10
    assert not asked
    assert pinned_block(xp, 1000).size == 1000
    assert asked == [1000]


def test_ids_lie_behind_what_goes_to_the_device() -> None:
    def rows(n: int) -> Rows:
        ids = np.arange(n, dtype=np.uint64)
        return Rows(np.ones((n, 2), np.float32), (ids.astype(np.int32),), (None,), ids)

    given = {
        "a": rows(3),
        "x": np.ones(2, np.float32),
        "b": rows(2),
        "c": Rows(np.ones((1, 2)), (np.zeros(1),), (None,)),
    }
    message = pack_step(5, given)
    assert [array.dtype == np.uint64 for array in message.arrays] == [False] * (len(message.arrays) - 2) + [True] * 2
    seed, got, _ = unpack_step(message)
    assert seed == 5
    assert list(got) == list(given)
    assert got["a"].ids.tolist() == [0, 1, 2]
    assert got["b"].ids.tolist() == [0, 1]
    assert got["c"].ids is None
    assert got["x"].tolist() == [1, 1]
