"""A model whose exact result can be counted: every sample shows one id of each shard host once."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import heterps as hps
from heterps import ops
from heterps.parquet import read_parquet
from heterps.tables import CtrAccessor, Manifest, Shard
from heterps.tables.hashing import shards_of

IDS = 4000


def counted_plan(hosts: int, lanes: int) -> hps.Plan:
    """Return a plan in which each sample looks one id up on every host."""
    ids, y = ops.input("ids", shape=(hosts,), dtype="uint64"), ops.input("y")
    table = ops.lookup(ids, table="seen", dim=1, accessor=CtrAccessor(), name="rows")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.reshape(table, (hosts,)), 1, name="out"), y))
    return hps.Plan.fused(graph, batch_size=16, shard_hosts=hosts, lanes=lanes, workers=lanes)


def counted_data(session: hps.Session, rows: int) -> hps.Dataset:
    """Column h of ids holds only ids that live on host h."""
    owners, rng = np.array(session.job.owners), np.random.default_rng(3)
    ids = np.arange(IDS, dtype=np.uint64)
    host = owners[shards_of(ids, len(owners))]
    columns = [rng.choice(ids[host == h], rows) for h in range(session.job.hosts)]
    return hps.arrays(
        {"ids": np.stack(columns, axis=1), "y": (rng.random(rows) < 0.5).astype(np.float32)}, split_cost=200
    )


def shows(snapshot: Path, hosts: int) -> list[int]:
    """Return how many shows each host had counted; equal numbers mean that no batch is torn."""
    found = [0] * hosts
    for file in Manifest.read(snapshot).files:
        if file.name.startswith("rows-"):
            found[int(file.name.split("-")[2])] += int(read_parquet(snapshot / file.name)["show"].to_numpy().sum())
    return found


def count_shows(shard: Shard, host: int) -> int:
    """Return how many shows the rows of a host have; travels to the hosts by name."""
    group = shard.groups["seen"]
    return sum(int(part.counters(part.live())[0].sum()) for part in group.partitions)


def all_rows(session: hps.Session) -> NDArray[np.float32]:
    """Return the values of all rows, and what the dense layer makes of them: for two sessions that must agree."""
    ids = np.arange(IDS, dtype=np.uint64).reshape(-1, session.job.hosts)
    found = session.predict(hps.arrays({"ids": ids}), fetch=["rows", "prediction"])
    assert isinstance(found, dict)
    return np.concatenate([np.asarray(found[name], np.float32).reshape(len(ids), -1) for name in sorted(found)], axis=1)
