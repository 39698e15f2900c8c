"""What a stage reads of the shard hosts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.service import Address, Listener, Method
from heterps.runtime.workers.shard_host import ShardHost
from heterps.runtime.workers.stage import StageParams
from heterps.runtime.workers.stage_actor import DenseReader
from heterps.testing.small_model import graph

JOB = Job(Model(graph()), 8, Async())
LAYOUT = JOB.model.layout


class Counted:
    """A shard host behind a socket; says how many bytes of parameters it has sent."""

    def __init__(self) -> None:
        self.host = ShardHost(JOB, 0, -1, lambda event: None)
        self.host.fresh(range(len(JOB.owners)))
        self.sent: list[int] = []

    @property
    def methods(self) -> Mapping[str, Method]:
        return {"dense": self._dense}

    def _dense(self, message: Message) -> Message:
        reply = self.host.methods["dense"](message)
        self.sent.append(sum(array.nbytes for array in reply.arrays))
        return reply

    def push(self, n: int) -> None:
        assert self.host.shard is not None
        self.host.shard.apply(BatchKey(0, 0, n), None, np.ones(LAYOUT.size, np.float32))


@pytest.fixture
def counted() -> Iterator[tuple[Counted, Address]]:
    service = Counted()
    listener = Listener(service)
    yield service, replace(listener.address, process="another")
    listener.close()


def params() -> StageParams:
    return StageParams(np.empty(LAYOUT.size, np.float32))


def test_parameters_that_have_not_changed_are_not_sent_again(counted: tuple[Counted, Any]) -> None:
    service, address = counted
    reader, mine = DenseReader(JOB, [address]), params()
    whole = 4 * LAYOUT.size
    for n in range(2):
        for _ in range(3):
            reader.fill(LAYOUT, mine)
            assert service.host.shard is not None
            assert np.array_equal(mine.flat, service.host.shard.pull_dense())
        assert service.sent == [whole, 0, 0] * (n + 1)
        service.push(n)
    reader.fill(LAYOUT, params())  # another program has nothing yet
    assert service.sent[-1] == whole
    reader.close()


def test_a_host_that_began_anew_sends_though_it_counts_the_same_version(counted: tuple[Counted, Any]) -> None:
    service, address = counted
    reader, mine = DenseReader(JOB, [address]), params()
    service.push(0)
    reader.fill(LAYOUT, mine)
    service.host.fresh(range(len(JOB.owners)))
    service.push(1)
    assert service.host.shard is not None
    service.host.shard.dense.values[:] = 7
    reader.fill(LAYOUT, mine)
    assert np.all(mine.flat == 7)
    assert len(service.sent) == 2
    reader.close()
