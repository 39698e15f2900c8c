"""Rows on disk are read while a pull waits for others."""

from __future__ import annotations

import dask.config
import numpy as np

from heterps import Graph, ops
from heterps.protocol.words import instructions as do
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Pull
from heterps.protocol.words.modes import Sync
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Wanted
from heterps.runtime.workers.read_ahead import _reader
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables.live.tiered import TieredPartition


def _graph() -> Graph:
    rows = ops.lookup(ops.input("ids", (2,), "uint64"), "deep", 4, storage="ssd")
    return Graph(loss=ops.logloss(ops.dense(ops.concat(rows), 1), ops.input("y")))


def test_rows_are_in_memory_when_the_turn_of_a_pull_comes() -> None:
    job = Job(Model(_graph()), 64, Sync(), lanes=2)
    with dask.config.set({"heterps.worker.hot-rows": "1B"}):  # as few as there can be
        host = ShardHost(job, 0, 1, lambda event: None)
        host.deliver(do.CreateHost(1, 0, "server-0", 1, 0, job.owned(0)))
    assert host.shard is not None
    (group,) = host.shard.groups.values()
    (part,) = group.partitions
    assert isinstance(part, TieredPartition)
    name, ids = group.spec.name, np.arange(200, dtype=np.uint64)
    host.shard.pull(name, ids)
    wanted = ids[:10]

    def on_disk() -> int:
        return int((group.find(wanted) >> 31).sum())

    assert on_disk() == 10
    answers: list[object] = []
    pull = Pull(1, 1, BatchKey(0, 1, 1), 1, 1)
    host.request(pull, Wanted({name: wanted}), lambda reply, rows: answers.append(reply))
    _reader().submit(lambda: None).result()  # what was asked for before has been read
    assert not answers
    assert on_disk() == 0
