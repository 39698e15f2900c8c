"""One bench takes a batch its way, to train and to read."""

from dataclasses import replace

import numpy as np

from heterps.data import Batch
from heterps.metrics import metric
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.devices import DeviceWish
from heterps.runtime.batch.job import PREDICTION, Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled, Wanted
from heterps.runtime.batch.walk import Walk
from heterps.runtime.workers.shard_host import ShardHost
from heterps.testing.small_model import columns, graph

N = 64
JOB = Job(Model(graph(dropout=0.5)), N, Async(), hosts=2)


def batch(seed: int = 7) -> Batch:
    return Batch(BatchKey(0, 0, 0), N, columns(N, seed))


def hosts() -> list[ShardHost]:
    made = [ShardHost(JOB, host, -1, lambda event: None) for host in range(JOB.hosts)]
    for host in made:
        host.fresh([shard for shard, owner in enumerate(JOB.owners) if owner == host.host])
    return made


class Reader:
    """Reads from hosts of this process, and keeps what was asked."""

    def __init__(self) -> None:
        self.hosts, self.asked = hosts(), list[tuple[int, Wanted]]()

    def __call__(self, host: int, wanted: Wanted) -> Pulled:
        self.asked.append((host, wanted))
        return self.hosts[host].read(wanted)

    @property
    def rows(self) -> int:
        return sum(len(group) for host in self.hosts if host.shard for group in host.shard.groups.values())


def test_reading_makes_no_rows_and_needs_no_label() -> None:
    read, bench = Reader(), Workbench(JOB, Walk.reading(JOB, (), {PREDICTION}))
    bench.refresh(read)
    unlabelled = Batch(BatchKey(0, 0, 0), N, {k: v for k, v in columns(N).items() if k != "y"})
    work = bench.begin(unlabelled)
    bench.pull(work, read)
    bench.forward(work)
    assert len(bench.program.prediction) == N
    assert read.rows == 0
    assert not any(wanted.train for _, wanted in read.asked)


def test_only_the_hosts_and_groups_that_matter_are_asked() -> None:
    read, bench = Reader(), Workbench(JOB, Walk.reading(JOB, (), {"vectors"}))
    bench.refresh(read)
    assert read.asked == []  # a lookup alone has no dense parameters
    one = np.full((N, 3), columns(N)["ids"][0, 0], np.uint64)
    work = bench.begin(Batch(BatchKey(0, 0, 0), N, {"ids": one}))
    bench.pull(work, read)
    assert bench.forward(work)["vectors"].shape == (N, 3, 4)
    ((_, wanted),) = read.asked
    assert wanted.dense is None


def test_training_and_reading_give_the_same_prediction_but_for_dropout() -> None:
    job = Job(Model(graph()), N, Async(), hosts=2, metrics=(metric("auc"),))
    read, train = Reader(), Workbench(job)
    work = train.begin(batch())
    for host in range(2):
        wanted = train.copy.wanted(work, host)
        assert wanted is not None
        train.copy.take(work, host, wanted, read(host, wanted))
    train.compute(work)
    assert read.rows > 0
    again = Workbench(job, Walk.reading(job, job.metrics, {PREDICTION}))
    again.refresh(read)
    reading = again.begin(batch())
    again.pull(reading, read)
    again.forward(reading)
    assert np.array_equal(again.program.prediction, train.program.prediction)
    states = [bench.metrics.take()["auc"] for bench in (train, again)]
    assert job.metrics[0].result(states[0]) == job.metrics[0].result(states[1])


def test_parameters_that_are_read_again_reach_a_device() -> None:
    found = []
    for wanted in ("cpu", "fake"):
        job = replace(JOB, devices=DeviceWish(wanted))
        read, bench = Reader(), Workbench(job, Walk.reading(job, (), {PREDICTION}))
        for value in (0.1, 0.9):
            for host in read.hosts:
                assert host.shard is not None
                host.shard.dense.values[:] = value
            bench.refresh(read)
            work = bench.begin(batch())
            bench.pull(work, read)
            bench.forward(work)
            found.append(bench.program.prediction.copy())
            bench.free(work)
    assert not np.allclose(found[0], found[1])
    np.testing.assert_allclose(found[2:], found[:2], rtol=1e-5)


def test_a_batch_in_flight_keeps_its_ids_however_many_come_and_go_meanwhile() -> None:
    """Stages answer in any order: the batch that began first may be the last to end."""
    job = Job(Model(graph()), N, Async(), hosts=2)
    bench, rng = Workbench(job), np.random.default_rng(2)
    slow = bench.begin(batch())
    routed = {name: (one.ids.copy(), one.inverse.copy()) for name, one in slow.routed.items()}
    for n in range(1, 30):
        quick = bench.begin(replace(batch(), columns=columns(N) | {"ids": rng.integers(0, 99, (N, 3), np.uint64)}))
        assert quick is not slow
        if n > 2:
            bench.free(quick)
    for name, (ids, inverse) in routed.items():
        assert np.array_equal(slow.routed[name].ids, ids)
        assert np.array_equal(slow.routed[name].inverse, inverse)
