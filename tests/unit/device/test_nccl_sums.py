"""NCCL's way against a stand-in whose communicators are threads: what is sent where, in which order lanes are added."""

import ctypes
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import numpy as np
import pytest

from heterps.device.nccl_sums import NcclSums, load_nccl
from heterps.errors import HardwareError


class FakeNccl:
    """``cupy.cuda.nccl`` for threads of one process; refuses what NCCL would refuse or hang on."""

    NCCL_FLOAT32, NCCL_SUM = 7, 0

    def __init__(self, ranks: int) -> None:
        self.mail: dict[tuple[int, int], Queue[bytes]] = {(a, b): Queue() for a in range(ranks) for b in range(ranks)}
        self.board: list[Any] = [None] * ranks
        self.barrier = threading.Barrier(ranks, timeout=20)
        self.groups = threading.local()
        self.sent: list[tuple[int, int, int]] = []  # from, to, numbers
        self.order = list(range(ranks))  # in which all-reduce adds

    def get_unique_id(self) -> Any:
        return ("id",)

    def groupStart(self) -> None:  # noqa: N802
        self.groups.open = []

    def groupEnd(self) -> None:  # noqa: N802
        for receive in self.groups.open:
            receive()
        self.groups.open = None

    def NcclCommunicator(self, ranks: int, unique_id: Any, rank: int) -> "FakeCommunicator":  # noqa: N802
        assert unique_id == ("id",)
        return FakeCommunicator(self, ranks, rank)


def read(pointer: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(pointer))


class FakeCommunicator:
    def __init__(self, nccl: FakeNccl, ranks: int, rank: int) -> None:
        self.nccl, self.ranks, self.rank = nccl, ranks, rank

    def send(self, pointer: int, count: int, kind: int, peer: int, stream: int) -> None:
        assert self.nccl.groups.open is not None, "sends and receives outside a group wait for each other"
        assert kind == self.nccl.NCCL_FLOAT32
        assert peer != self.rank
        self.nccl.sent.append((self.rank, peer, count))
        self.nccl.mail[self.rank, peer].put(read(pointer, count).tobytes())

    def recv(self, pointer: int, count: int, kind: int, peer: int, stream: int) -> None:
        def receive() -> None:
            got = np.frombuffer(self.nccl.mail[peer, self.rank].get(timeout=20), np.float32)
            assert len(got) == count, "a send and its receive must have one size"
            read(pointer, count)[...] = got

        self.nccl.groups.open.append(receive)

    def _all(self, pointer: int, count: int) -> list[np.ndarray]:
        self.nccl.board[self.rank] = read(pointer, count).copy()
        self.nccl.barrier.wait()
        found = list(self.nccl.board)
        self.nccl.barrier.wait()
        assert len({len(part) for part in found}) == 1, "all must give as many"
        return found

    def allGather(self, sent: int, received: int, count: int, kind: int, stream: int) -> None:  # noqa: N802
        read(received, count * self.ranks)[...] = np.concatenate(self._all(sent, count))

    def allReduce(self, sent: int, received: int, count: int, kind: int, op: int, stream: int) -> None:  # noqa: N802
        assert op == self.nccl.NCCL_SUM
        found = self._all(sent, count)
        total = found[self.nccl.order[0]].copy()
        for rank in self.nccl.order[1:]:
            total += found[rank]
        read(received, count)[...] = total


def on_ranks(
    nccl: FakeNccl, lanes: list[int], act: Callable[[NcclSums, dict[int, Any]], Any], gradients: Any
) -> list[Any]:
    ranks = max(lanes) + 1
    results: list[Any] = [None] * ranks

    def one(rank: int) -> None:
        sums = NcclSums(rank, ranks, nccl.get_unique_id(), lanes, xp=np, nccl=nccl)
        results[rank] = act(sums, {lane: gradients[lane] for lane, r in enumerate(lanes) if r == rank})

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(result is not None for result in results)
    return results


def drawn(lanes: int, size: int) -> list[Any]:
    """Numbers of very different sizes: their sum shows in which order they were added."""
    rng = np.random.default_rng(lanes * 1000 + size)
    return [(rng.normal(size=size) * 10.0 ** rng.integers(-6, 6, size)).astype(np.float32) for _ in range(lanes)]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("lanes", [[0, 0, 0], [0, 1, 0], [2, 0, 1, 0, 2]], ids=["one", "two", "three"])
def test_every_rank_gets_the_sum_in_lane_order(lanes: list[int], size: int) -> None:
    gradients = drawn(len(lanes), size)
    expected = gradients[0].copy()
    for gradient in gradients[1:]:
        expected += gradient
    nccl = FakeNccl(max(lanes) + 1)
    for result in on_ranks(nccl, lanes, NcclSums.add, gradients):
        assert np.array_equal(result.view(np.uint32), expected.view(np.uint32))


def test_each_lane_sends_each_number_once_and_none_to_itself() -> None:
    nccl = FakeNccl(2)
    on_ranks(nccl, [0, 1], NcclSums.add, drawn(2, 100))
    assert sorted(nccl.sent) == [(0, 1, 50), (1, 0, 50)]


def test_ncclallreduce_is_named_for_what_it_is() -> None:
    gradients, results = drawn(3, 1000), []
    for order in ([0, 1, 2], [2, 0, 1]):
        nccl = FakeNccl(3)
        nccl.order = order
        results.append(on_ranks(nccl, [0, 1, 2], NcclSums.add_not_repeatable, gradients)[0])
    assert np.allclose(results[0], results[1], rtol=1e-4, atol=1e-2)
    assert not np.array_equal(results[0], results[1])


def test_what_does_not_fit_is_named() -> None:
    sums = NcclSums(0, 1, ("id",), [0, 0], xp=np, nccl=FakeNccl(1))
    with pytest.raises(HardwareError, match=r"rank 0 computes lanes \[0, 1\], but gave gradients of \[0\]"):
        sums.add({0: np.ones(3, np.float32)})
    with pytest.raises(HardwareError, match="flat float32 of one size"):
        sums.add({0: np.ones(3, np.float32), 1: np.ones(4, np.float32)})


def test_without_nccl_the_reason_and_what_to_do_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy.cuda", None)
    with pytest.raises(HardwareError, match=r"NCCL cannot be used: .*by their tables"):
        load_nccl()
