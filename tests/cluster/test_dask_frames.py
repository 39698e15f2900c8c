"""A dask.dataframe is read where its partitions lie: on any cluster, whatever the partitions are like."""

import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import heterps as hps
from heterps import ops
from heterps.data import Category, Number, Schema, frame, label, sparse
from heterps.errors import ClusterError, DataError, RunError
from heterps.runtime.cluster.dask_frames import dask_frame
from tests.cluster.conftest import Launched

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.cluster

FOLDER = pathlib.Path(__file__).parent
PATHS = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
ROWS = pd.DataFrame({"user": [f"u{i % 7}" for i in range(1000)], "v": np.arange(1000.0), "y": np.arange(1000) % 2})
FIELDS = Schema.of(label("y", Number("v")), sparse("ids", Category("user")))
SIZES = (9000, 0, 17, 12_000, 1, 6000)
NOTE = "what makes rows heavier than all that a run has to say about itself" * 12


def part(i: int) -> pd.DataFrame:
    """Made where it is computed: unequal, some without a row, categories with codes of their own in each."""
    rng = np.random.default_rng(i)
    user = rng.integers(0, 50, SIZES[i])
    names = pd.Categorical([f"u{u}" for u in user])
    columns = {"user": names, "note": NOTE, "v": rng.normal(size=SIZES[i]), "y": user % 2.0}
    return pd.DataFrame(columns, index=pd.RangeIndex(SIZES[i], name="row"))


def unequal() -> object:
    return dd.from_map(part, range(len(SIZES)), meta=part(4).iloc[:0])


def graph() -> hps.Graph:
    ids, x = ops.input("ids", shape=(2,), dtype="uint64"), ops.input("x", shape=(1,))
    h = ops.concat(ops.lookup(ids, table="t", dim=2), x)
    return hps.Graph(ops.logloss(ops.dense(h, 1), ops.input("y")))


def plan() -> hps.Plan:
    return hps.Plan.fused(graph(), batch_size=500)


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    """A cluster of processes as anyone would start it: no resources, nothing of ours preloaded."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def handed_over(dask_worker: object) -> int:
    """Bytes that a worker gave to others, or to the client."""
    return dask_worker.transfer_outgoing_bytes_total  # type: ignore[attr-defined, no-any-return]


def total_handed_over(client) -> int:  # type: ignore[no-untyped-def]
    return sum(client.run(handed_over).values())


def received() -> int:
    """Bytes that came to this process over the TCP connections it has, as the kernel counts them."""
    return sum(_received(int(name)) for name in os.listdir("/proc/self/fd"))


def _received(number: int) -> int:
    try:
        if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            return 0
        with socket.socket(fileno=os.dup(number)) as copy:
            if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
                return 0
            info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
    except OSError:
        return 0
    return int(struct.unpack_from("Q", info, 128)[0])  # tcpi_bytes_received


def test_without_a_cluster_it_says_so() -> None:
    with pytest.raises(ClusterError, match=r"needs a cluster: create a distributed\.Client first"):
        dask_frame(dd.from_pandas(ROWS, npartitions=2))
    with pytest.raises(DataError, match=r"takes a dask\.dataframe\.DataFrame, not a DataFrame"):
        dask_frame(ROWS)


def test_training_reads_partitions_where_they_lie_and_nothing_comes_to_the_client(client) -> None:  # type: ignore[no-untyped-def]
    data = dask_frame(unequal(), label="y", client=client, split_cost=1)
    assert data.schema.names == ("ids", "x", "y")
    assert len(data.splits()) == len(SIZES)
    assert all(len(holders) == 1 for holders in data.where(data.splits()))
    before, came = total_handed_over(client), received()
    with hps.launch(plan(), client, sparse=hps.ElementAdaGrad(lr=0.2), metrics=[], report_s=3600) as session:
        *_, last = session.train(data, epochs=2)
        trained = received() - came
        found = session.evaluate(data, ["auc"])
        moved = total_handed_over(client) - before
        assert moved < min(data.sizes[i] for i in (0, 3, 5)) / 20  # at most those of a few rows, run twice
        predicted = session.predict(data)
    assert last.samples == 2 * sum(SIZES)
    assert found["auc"] > 0.99
    assert len(predicted) == sum(SIZES)
    size = sum(data.sizes)
    assert trained < size / 3
    assert sum(batch.size for split in data.splits() for batch in data.read(split, batch_size=500)) == sum(SIZES)
    assert received() - came > size  # the measure sees rows that come here


@pytest.mark.full
def test_a_schema_is_inferred_wrong_columns_are_named_and_the_index_can_be_a_column(client) -> None:  # type: ignore[no-untyped-def]
    data = dask_frame(dd.from_pandas(ROWS, npartitions=2), FIELDS, client=client)
    expected = frame(ROWS, FIELDS)
    (batch,) = expected.read(expected.splits()[0], batch_size=1000)
    (read,) = data.read(data.splits()[0], batch_size=1000)
    assert np.array_equal(read["y"], batch["y"])
    assert np.array_equal(read["ids"], batch["ids"])
    with pytest.raises(DataError, match="the frame has no column 'z'; it has user, v, y"):
        dask_frame(dd.from_pandas(ROWS, npartitions=2), Schema.of(label("y", Number("z"))), client=client)
    codes = ROWS.assign(code=pd.Categorical(ROWS["y"] + 5)).set_index("user")
    indexed = dask_frame(dd.from_pandas(codes, npartitions=2, sort=False), FIELDS, client=client)
    (by_index,) = indexed.read(indexed.splits()[0], batch_size=1000)
    assert np.array_equal(by_index["ids"], batch["ids"])
    inferred = dask_frame(dd.from_pandas(codes, npartitions=2, sort=False), client=client)
    assert inferred.schema.sources == ("code", "v", "y")  # numbers that are categories are no measure


@pytest.mark.full
def test_rows_that_nobody_can_compute_again_are_named(client) -> None:  # type: ignore[no-untyped-def]
    """A partition that was scattered is gone with the only worker that had it."""
    (first, second) = sorted(client.scheduler_info()["workers"])
    parts = [client.scatter(part(0), workers=[first]), client.scatter(part(3), workers=[second])]
    data = dask_frame(dd.from_delayed(parts, meta=part(4).iloc[:0], verify_meta=False), client=client, split_cost=1)
    with hps.launch(plan(), client) as session:
        *_, last = session.train(data)
        assert last.samples == SIZES[0] + SIZES[3]
        parts.clear()
        client.cancel(list(data.held[:1]), force=True)
        with pytest.raises((RunError, ClusterError), match=r"rows it needs are gone|cancelled"):
            list(session.train(data))


TRAIN = """
import os, sys
import distributed
import heterps as hps
from heterps.runtime.cluster.dask_frames import dask_frame
sys.path.insert(0, {folder!r})
from test_dask_frames import SIZES, plan, total_handed_over, unequal

client = distributed.Client({address})
client.upload_file({file!r})
data = dask_frame(unequal(), label="y", client=client, split_cost=1)
readers = {{w for w, said in client.scheduler_info(n_workers=-1)["workers"].items() if "HPS_IO" in said["resources"]}}
assert readers, "no pool of readers"
assert set().union(*data.where(data.splits())) <= readers
before = total_handed_over(client)
with hps.launch(plan(), client) as session:
    *_, last = session.train(data)
assert total_handed_over(client) - before < 6000
print("trained on", last.samples, "of", sum(SIZES))
"""


def script(address: str = "") -> str:
    return TRAIN.format(folder=str(FOLDER), file=str(FOLDER / "test_dask_frames.py"), address=address)


@pytest.mark.full
def test_heterps_launch_computes_a_frame_where_it_is_read(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__PREFETCH"] = "0"
    code, out, err = launched.run(script(), "--servers", "1", "--io", "2")
    assert (code, out.strip()) == (0, f"trained on {sum(SIZES)} of {sum(SIZES)}"), err


@pytest.fixture
def by_hand(tmp_path: pathlib.Path) -> Iterator[object]:
    """A client of a scheduler with a server and two io workers, each started with Dask's own command."""
    words = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        "--host",
        "127.0.0.1",
        "--no-nanny",
        "--nthreads",
        "1",
    ]
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as scheduler,
        distributed.Client(scheduler) as client,
    ):
        own = [
            subprocess.Popen([*words, "--resources", f"{pool}=1", scheduler.scheduler_address], cwd=tmp_path, env=PATHS)
            for pool in ("HPS_SERVER", "HPS_IO", "HPS_IO")
        ]
        try:
            client.wait_for_workers(3, timeout=60)
            yield client
        finally:
            for process in own:
                process.kill()
                process.wait()


@pytest.mark.full
def test_workers_started_by_hand(by_hand, tmp_path: pathlib.Path) -> None:  # type: ignore[no-untyped-def]
    program = script(repr(by_hand.scheduler.address))
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=240, env=PATHS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"trained on {sum(SIZES)} of {sum(SIZES)}"


@pytest.mark.full
def test_what_a_lost_worker_held_is_computed_again_and_every_row_counts_once(by_hand) -> None:  # type: ignore[no-untyped-def]
    """Io workers of their own, so that no table is lost with one; the other reads what is computed again."""
    data = dask_frame(unequal(), label="y", client=by_hand, split_cost=1)
    victim = data.where(data.splits())[0][0]
    process = by_hand.run(os.getpid, workers=[victim])[victim]
    with hps.launch(hps.Plan.fused(graph(), batch_size=20), by_hand, report_s=0.2) as session:
        killed = False
        for last in session.train(data, epochs=3):
            if last.samples and not killed:
                os.kill(process, signal.SIGKILL)
                killed = True
        assert killed
        assert last.samples == 3 * sum(SIZES)
        assert victim not in set().union(*data.where(data.splits()))
        assert len(session.predict(data)) == sum(SIZES)
