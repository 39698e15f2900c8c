"""A dask.dataframe is read where its partitions lie."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from heterps.data import Category, Dataset, Number, Schema, Split, frame, label, sparse
from heterps.errors import ClusterError, DataError
from heterps.runtime.cluster.identity import identity_of

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.cluster

ROWS = pd.DataFrame({"user": [f"u{i % 7}" for i in range(1000)], "v": np.arange(1000.0), "y": np.arange(1000) % 2})


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def read_here(data: Dataset, split: Split) -> tuple[str, bool, list[float], list[int]]:
    worker = distributed.get_worker()
    local = all(piece.source in worker.data for piece in split.pieces)
    batches = [(b["y"].copy(), b["ids"].copy()) for b in data.read(split, batch_size=64)]
    return (
        worker.address,
        local,
        np.concatenate([y for y, _ in batches]).tolist(),
        np.concatenate([i for _, i in batches])[:, 0].tolist(),
    )


def test_without_a_cluster_it_says_so() -> None:
    from heterps.runtime.cluster.dask_frames import dask_frame

    with pytest.raises(ClusterError, match=r"needs a cluster: create a distributed\.Client first"):
        dask_frame(dd.from_pandas(ROWS, npartitions=2))


def test_partitions_are_read_by_the_workers_that_hold_them(client) -> None:  # type: ignore[no-untyped-def]
    from heterps.runtime.cluster.dask_frames import dask_frame

    fields = Schema.of(label("y", Number("v")), sparse("ids", Category("user")))
    data = dask_frame(dd.from_pandas(ROWS, npartitions=4), fields, split_cost=1)
    splits = data.splits()
    assert len(splits) == 4
    ys, ids = [], []
    for split in splits:
        holders = data.where(split)
        address, local, y, found = client.submit(read_here, data, split, workers=list(holders), pure=False).result()
        assert address in holders
        assert local
        ys += y
        ids += found
    expected = frame(ROWS, fields)
    (batch,) = expected.read(expected.splits()[0], batch_size=1000)
    assert ys == batch["y"].tolist()
    assert ids == batch["ids"][:, 0].tolist()


def test_another_worker_fetches_what_it_does_not_hold(client) -> None:  # type: ignore[no-untyped-def]
    from heterps.runtime.cluster.dask_frames import dask_frame

    data = dask_frame(
        dd.from_pandas(ROWS, npartitions=2), Schema.of(label("y", Number("v")), sparse("ids", Category("user")))
    )
    split = data.splits()[0]
    others = set(identity_of(client)["workers"]) - set(data.where(split))
    for worker in others:
        _, local, y, _ = client.submit(read_here, data, split, workers=[worker], pure=False).result()
        assert not local
        assert len(y) > 0


def test_the_schema_is_inferred_and_wrong_columns_are_named(client) -> None:  # type: ignore[no-untyped-def]
    from heterps.runtime.cluster.dask_frames import dask_frame

    data = dask_frame(dd.from_pandas(ROWS, npartitions=2))
    assert data.schema.names == ("ids", "x", "y")
    # Read outside any worker: the rows come to whoever asks.
    assert sum(b.size for split in data.splits() for b in data.read(split, batch_size=100)) == 1000
    with pytest.raises(DataError, match="the frame has no column 'z'; it has user, v, y"):
        dask_frame(dd.from_pandas(ROWS, npartitions=2), Schema.of(label("y", Number("z"))))
