"""Values as float16 on the wire."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from heterps.errors import PlanError
from heterps.protocol.words.instructions import CreateHost
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Acked, Pull, Push
from heterps.protocol.words.modes import Async, Cached, Geo, Mode, Sync
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled, PushedGradients, Wanted, bytes_in
from heterps.runtime.wire.halving import halved, made_whole
from heterps.runtime.wire.links import HostLink, link_to_host
from heterps.runtime.wire.service import Listener
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import SGD, RowGradients
from heterps.testing.small_model import graph

NUMBERS = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=20)


@given(NUMBERS, st.integers(-20, 20))
def test_numbers_keep_eleven_bits_down_to_a_billionth_of_the_largest(numbers: list[float], power: int) -> None:
    sent = np.array(numbers, np.float32) * np.float32(2.0**power)
    powers: list[int] = []
    light = halved(sent, powers)
    assert light.dtype == np.float16
    assert np.isfinite(light).all()
    found = made_whole(light, iter(powers))
    largest = float(np.abs(sent).max())
    np.testing.assert_allclose(found, sent, rtol=2.0**-11, atol=largest * 2.0**-39)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
def test_what_is_no_finite_number_travels_as_it_is(bad: float) -> None:
    sent, powers = np.array([1.0, bad], np.float32), []
    assert halved(sent, powers) is sent
    assert powers == []
    assert made_whole(sent, iter(powers)) is sent


@pytest.mark.parametrize("mode", [Sync(), Geo(4), Cached(4)], ids=lambda mode: mode.name)
def test_modes_that_would_not_keep_their_promise_are_refused(mode: Mode) -> None:
    with pytest.raises(PlanError, match=r"wire='float16' rounds what travels, but mode .* use mode 'async'"):
        Job(Model(graph(), SGD(0.1), SGD(0.1)), 64, mode, wire="float16")
    with pytest.raises(PlanError, match="travel as 'float32' or 'float16'"):
        Job(Model(graph()), 64, Async(), wire="int8")


class Calls:
    """A link to a host of its own, and answers."""

    def __init__(self, link: HostLink, group: str) -> None:
        self.link, self.group = link, group
        self.ids = np.arange(40, dtype=np.uint64)

    def ask(self, request: Any, payload: Any) -> tuple[Any, Any]:
        answers: SimpleQueue[Any] = SimpleQueue()
        self.link.send(request, payload, lambda *answer: answers.put(answer), answers.put)
        return answers.get(timeout=60)

    def pull(self, n: int, width: int, size: int) -> Pulled:
        wanted = Wanted({self.group: self.ids}, {self.group: np.empty((40, width), np.float32)}, np.empty(size, "f4"))
        _, pulled = self.ask(Pull(1, 1, BatchKey(0, 0, n), 0, n), wanted)
        assert np.shares_memory(pulled.values[self.group], wanted.out[self.group])
        return pulled

    def push(self, n: int, pulled: Pulled, rows: np.ndarray, dense: np.ndarray) -> Any:
        gradients = RowGradients(self.ids, rows, pulled.rows[self.group], version=pulled.version)
        pushed = PushedGradients({self.group: gradients}, dense, samples=64, loss=1.0)
        return self.ask(Push(1, 1, BatchKey(0, 0, n), 0, n, 1), pushed)[0]


def trained(half: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows and parameters of a host after some pushes over a socket, and the dtypes of what passed."""
    job = Job(Model(graph(), SGD(0.1), SGD(0.1)), 64, Async(), wire="float16" if half else "float32")
    (group,) = job.model.groups
    host = ShardHost(job, 0, 1, lambda event: None)
    host.deliver(CreateHost(1, 0, "server-0", 1, 0, job.owned(0)))
    passed: list[str] = []

    class Seen:
        """The host, and a look at what comes."""

        @property
        def methods(self):
            return {"request": self.request}

        def request(self, message):
            answer = host.methods["request"](message)
            passed.extend(array.dtype.str for array in (*message.arrays, *answer.arrays))
            return answer

    with closing(Listener(Seen())) as listener:
        address = replace(listener.address, process="another")
        calls = Calls(link_to_host(address, half=job.half_on_wire), group.name)
        rng, size = np.random.default_rng(3), job.model.layout.size
        for n in range(3):
            pulled = calls.pull(n, group.width, size)
            rows = 1e-6 * rng.standard_normal((40, group.width), np.float32)
            assert calls.push(n, pulled, rows, 1e-6 * rng.standard_normal(size, np.float32)) == Acked(1)
        calls.link.close()
    found = host.read(Wanted({group.name: calls.ids}, dense=np.empty(size, np.float32), train=False))
    assert found.dense is not None
    return found.values[group.name], found.dense, passed


def test_bytes_are_counted_as_they_travel() -> None:
    values, ids = np.zeros((3, 4), np.float32), np.arange(3, dtype=np.uint64)
    pushed = PushedGradients({"t": RowGradients(ids, values, show=np.zeros(3, np.float32))}, np.zeros(5, np.float32))
    pulled = Pulled({"t": values}, {"t": np.zeros(3, np.uint32)}, 0, np.zeros(5, np.float32))
    assert [bytes_in(each) for each in (pushed, pulled)] == [3 * 8 + 48 + 12 + 20, 48 + 12 + 20]
    assert [bytes_in(each, half=True) for each in (pushed, pulled)] == [3 * 8 + 24 + 12 + 10, 24 + 12 + 10]
    assert bytes_in(Wanted({"t": ids}), half=True) == 24


def test_a_host_learns_the_same_from_half_the_bytes_but_for_rounding() -> None:
    whole, light = trained(False), trained(True)
    assert "<f2" not in whole[2]
    assert light[2].count("<f2") == 12  # rows and dense, there and back, three times
    assert "<f4" not in light[2]
    for wanted, found in zip(whole[:2], light[:2], strict=True):
        assert not np.array_equal(wanted, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
