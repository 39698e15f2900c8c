"""What a stage reads of the shard hosts, and whom it hands batches to."""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heterps.device.fake import TRAFFIC
from heterps.graph import Graph
from heterps.kernels import Program, Rows
from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.crossing import StageOutcome
from heterps.runtime.batch.devices import DeviceWish
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_outcome
from heterps.runtime.wire.service import Address, Listener, Method
from heterps.runtime.workers.shard_host import ShardHost
from heterps.runtime.workers.stage import StageService
from heterps.runtime.workers.stage_actor import DenseReader, StagesBehind
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


def test_parameters_go_up_to_a_device_only_when_they_have_changed() -> None:
    lowered = JOB.model.lowered.graph
    inputs = [op.name for op in lowered if op.kind in ("input", "pull")]
    stages = (tuple(inputs), tuple(op.name for op in lowered if op.name not in inputs))
    job = replace(JOB, stages=stages, devices=DeviceWish("fake"))
    source = Written(0.25)
    stage, here = StageService(job, 1, source), StageService(replace(job, devices=DeviceWish()), 1, source)
    program = Program(lowered, stages[1], batch_size=8)
    feeds = {name: _feed(lowered, name) for name in program.feeds}
    up, losses = [], []
    for value in (0.25, None, None, 0.5):
        source.value = value
        TRAFFIC.reset()
        losses.append(stage.step(0, feeds).loss)
        up.append(TRAFFIC.bytes_to_device)
        source.value = value
        assert losses[-1] == pytest.approx(here.step(0, feeds).loss, rel=1e-6)
    assert up[0] - up[1] >= 4 * program.layout.size
    assert up == [up[0], up[1], up[1], up[0]]
    assert losses[0] == losses[1] == losses[2] != losses[3]


class Paced:
    """A stage behind a socket that takes so long for a batch."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.steps = seconds, 0

    @property
    def methods(self) -> Mapping[str, Method]:
        return {"step": self._step}

    def _step(self, message: Message) -> Message:
        self.steps += 1
        time.sleep(self.seconds)
        return pack_outcome(StageOutcome(loss=self.seconds, prediction=np.zeros(1, np.float32)))


def test_a_slower_worker_behind_gets_less_and_a_lost_one_nothing() -> None:
    services = [Paced(0.05), Paced(0.002), Paced(0.0)]
    listeners = [Listener(service) for service in services]
    listeners[-1].close()
    behind = StagesBehind(2, [replace(listener.address, process="another") for listener in listeners], None)
    with ThreadPoolExecutor(4) as threads:
        losses = list(threads.map(lambda n: behind(n, {}).loss, range(120)))
    slow, fast, lost = (service.steps for service in services)
    assert (slow + fast, lost) == (120, 0)
    assert slow <= 40  # in turn it would be 60
    assert losses.count(0.05) == slow
    behind.close()
    for listener in listeners[:-1]:
        listener.close()


class Written:
    """Parameters that are all one value, or as they were."""

    def __init__(self, value: float | None) -> None:
        self.value = value

    def holder(self) -> None:
        """Gradients go back with the outcome."""

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        if self.value is not None:
            params.write(slice(None), np.full(layout.size, self.value, np.float32))


def _feed(lowered: Graph, name: str) -> Any:
    rng, op = np.random.default_rng(0), lowered[name]
    if op.kind == "pull":
        ids = lowered[op.inputs[0]].type
        inverse = rng.integers(0, 5, (8, *ids.shape)).astype(np.int32)
        return Rows(rng.random((5, op.attrs["width"]), np.float32), (inverse,))
    return rng.integers(0, 2, (8, *op.type.shape)).astype(np.float32)
