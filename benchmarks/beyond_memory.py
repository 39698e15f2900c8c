"""Tables beyond memory: ours, RocksDB and the same table in memory, on the same batches.

``python -m benchmarks.beyond_memory --rows 1e7 --memory 5e8`` fills a table of dim 16 with row-wise AdaGrad, then pulls
and pushes batches of 4096 samples with 26 ids, drawn by Zipf 1.1 or evenly. Each store runs in a process of its own;
all go past the page cache (``O_DIRECT``), so that memory is what it is given: for ours rows in memory, index and
buffers, for RocksDB (``pip install rocksdict``) its caches, memtables, index and filters. ``--cgroup`` has the kernel
hold each to it: a memory cgroup of ``--memory``, beyond what the process had before (as root); RocksDB takes more than
it is told, so there it is told less (``--rocks-memory``). Before it is measured, each store has trained the ids drawn
most often, as many as ours has memory for (RocksDB: ``--warm``). A batch is made unique before; its gradients are the
same for all. Rows of the batches to come are read ahead by ours (``--ahead 0``: not).

RocksDB: filled by sorted files, ids of a batch in 32 multi-gets at once, rows in one write batch, no log of writes, no
compression, blocks of 4 KB, filters but for the last level (every id has a row), an eighth of the memory for each of
two memtables, the rest a cache of blocks, or of rows (``--rocks-rows``: the share of the cache).

Printed: microseconds a sample, the 99th percentile of a batch, bytes that the process read from and wrote to the disk a
sample (``/proc/self/io``), reads a second, and a sample in the first and the last quarter of what was measured, bytes
written for each changed row as a multiple of the row, bytes of the index a row, the resident memory before there was a
store (Python, batches that were drawn) and the largest, and in a cgroup what the kernel counted at most. ``--before``
and ``--after`` are commands around each measurement: whatever makes the machine quiet that long, while filling takes
minutes.

``--hidden 192`` measures what an Async training sees, too: between pull and push a layer of that width computes forward
and backward on what was pulled, in one thread, while rows of the batches to come are read. Printed are milliseconds of
a batch with the table alone, with the layer alone, with both, and the last as a share of the sum and of the longer one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from heterps.protocol import BatchKey
from heterps.tables import GroupSpec, RowGradients, RowWiseAdaGrad, Shard, TableSpec
from heterps.tables.live.hot_rows import BESIDE
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.tiered import TieredPartition

DIM, SAMPLES, SLOTS, RATE = 16, 4096, 26, 0.01
VALUE_BYTES = {"float32": 4, "float16": 2}
CHUNK, WARM = 1 << 18, 1 << 17
VALUES = np.random.default_rng(1).random((CHUNK, DIM + 1), np.float32)  # of every chunk
DRAWN = 1 << 28  # bytes of ids that are drawn before
READERS = 32  # threads that get rows of RocksDB, as many as ours reads with
INDEX_BYTES, BUFFERS = 7, 128e6  # of ours: for a row on disk; of the log and of reads
STORES = ("memory", "ours", "rocksdb")
Drawn = list[tuple[np.ndarray, np.ndarray]]
Compute = Callable[[np.ndarray], None]


def row_bytes(dtype: str = "float32") -> int:
    """Bytes of a row: id, values, the rule's slot."""
    return 8 + VALUE_BYTES[dtype] * DIM + 4


class Store(Protocol):
    """What is measured."""

    def fill(self, rows: int) -> None:
        """Begin with these rows."""

    def step(self, ids: np.ndarray, gradients: np.ndarray, compute: Compute | None = None) -> None:
        """Pull and push one batch; what computes is called between."""

    def ahead(self, ids: np.ndarray) -> None:
        """Read rows that will be asked for."""

    def reads(self) -> float:
        """Return how many reads the disk was asked for until now."""

    def facts(self, rows: int) -> dict[str, float]:
        """Return figures of its own."""


class Ours:
    """A table of this package, in memory or beyond."""

    def __init__(self, rows: int, memory: float | None, folder: Path, dtype: Any = "float32") -> None:
        storage: Any = "memory" if memory is None else "ssd"
        group = GroupSpec("g", (TableSpec("t", DIM, RowWiseAdaGrad(RATE), dtype=dtype),), storage=storage)
        self.row_bytes = row_bytes(dtype)
        self.in_memory = rows if memory is None else self.hot_rows(rows, memory)
        hot = None if memory is None else self.in_memory * (self.row_bytes + BESIDE)
        self.shard = Shard([group], folder=folder, hot_bytes=hot)
        self.group, self.steps = self.shard.group("g"), 0

    def hot_rows(self, rows: int, memory: float) -> int:
        """Return how many rows fit into memory beside the index of the others."""
        most = (memory - BUFFERS - INDEX_BYTES * rows) / (self.row_bytes + BESIDE - INDEX_BYTES)
        return int(min(max(most, 1e4), rows))

    def fill(self, rows: int) -> None:
        """Begin with these rows. Memory takes the first ones: those drawn most often, of these the most often last, as
        if they had been used last.
        """
        values, slots = VALUES[:, :DIM].copy(), VALUES[:, DIM:].copy()
        for lo, hi in ((0, self.in_memory), (self.in_memory, rows)):
            for first in reversed(range(lo, hi, CHUNK)):
                ids = placed(np.arange(first, min(first + CHUNK, hi), dtype=np.uint64), rows)
                self.group.append({"id": ids, "t": values[: len(ids)], "t.slots": slots[: len(ids)]})
        self.group.build_index()

    def step(self, ids: np.ndarray, gradients: np.ndarray, compute: Compute | None = None) -> None:
        """Pull and push one batch."""
        pulled = self.shard.pull("g", ids)
        if compute is not None:
            compute(pulled.values)
        rows = RowGradients(ids, gradients, pulled.rows)
        self.shard.apply(BatchKey(0, 0, self.steps), {"g": rows})
        self.steps += 1

    def ahead(self, ids: np.ndarray) -> None:
        """Read rows that will be asked for."""
        self.shard.prefetch("g", ids)

    def reads(self) -> float:
        """Return how many reads the disk was asked for until now: one for a row, nearly always."""
        (part,) = self.group.partitions
        return part.cold.log.traffic.read / (4 * part.layout.stride) if isinstance(part, TieredPartition) else 0.0

    def facts(self, rows: int) -> dict[str, float]:
        """Return figures of its own."""
        (part,) = self.group.partitions
        if not isinstance(part, TieredPartition):
            assert isinstance(part, RowPartition)
            return {"index_bytes_row": 8.0 * int(part.meta[0]) / rows}
        return {
            "index_bytes_row": (part.cold.nbytes + 8 * int(part.hot.meta[0]) + 5 * part.capacity) / rows,
            "hot_rows": float(part.capacity),
            "file_of_rows": part.cold.log.nbytes / (rows * self.row_bytes),
        }


class RocksDB:
    """RocksDB through rocksdict; its settings stand at the head of this file."""

    def __init__(self, rows: int, memory: float, folder: Path, row_share: float) -> None:
        import rocksdict

        self._rocks, self._folder, self._path = rocksdict, folder, str(folder / "rocks")
        buffer = int(memory / 8)
        cache = int(memory - 2 * buffer - rows * row_bytes() / 4096 * 32)  # the index has 32 bytes a block
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_use_direct_reads(True)
        options.set_use_direct_io_for_flush_and_compaction(True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.increase_parallelism(2)
        options.set_write_buffer_size(buffer)
        options.set_max_write_buffer_number(2)
        options.set_level_compaction_dynamic_level_bytes(True)
        options.set_optimize_filters_for_hits(True)
        options.set_max_open_files(-1)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(int(cache * (1 - row_share))))
        table.set_block_size(4096)
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        if row_share:
            options.set_row_cache(rocksdict.Cache(int(cache * row_share)))
        self._options = options
        self._readers = ThreadPoolExecutor(READERS)
        self._db = rocksdict.Rdict(self._path, options)
        wanted = rocksdict.WriteOptions()
        wanted.disable_wal = True
        self._db.set_write_options(wanted)

    def fill(self, rows: int) -> None:
        """Begin with these rows."""
        paths, rows_of_chunk, size = [], _split(VALUES), 4 * CHUNK
        for first in range(0, rows, size):
            writer = self._rocks.SstFileWriter(self._options)
            paths.append(str(self._folder / f"{first}.sst"))
            writer.open(paths[-1])
            for start in range(first, min(first + size, rows), CHUNK):
                ids = np.arange(start, min(start + CHUNK, rows), dtype=np.uint64)
                for key, value in zip(_keys(ids), rows_of_chunk[: len(ids)], strict=True):
                    writer[key] = value
            writer.finish()
        take = self._rocks.IngestExternalFileOptions()
        take.set_move_files(True)
        self._db.ingest_external_file(paths, take)

    def step(self, ids: np.ndarray, gradients: np.ndarray, compute: Compute | None = None) -> None:
        """Pull and push one batch."""
        keys = _keys(ids)
        size = -(-len(keys) // READERS)
        parts = [keys[first : first + size] for first in range(0, len(keys), size)]
        found = b"".join(value for part in self._readers.map(self._db.get, parts) for value in part)
        values = np.frombuffer(found, np.float32).reshape(-1, DIM + 1).copy()
        if compute is not None:
            compute(values[:, :DIM])
        values[:, DIM] += np.mean(gradients**2, 1)
        values[:, :DIM] -= RATE * gradients / (np.sqrt(values[:, DIM:]) + np.float32(1e-10))
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key, value in zip(keys, _split(values), strict=True):
            batch.put(key, value)
        self._db.write(batch)

    def ahead(self, ids: np.ndarray) -> None:
        """Read rows that will be asked for."""

    def reads(self) -> float:
        """Return how many reads the disk was asked for until now, if all were of a block."""
        return disk()[0] / 4096

    def facts(self, rows: int) -> dict[str, float]:
        """Return figures of its own."""
        return {}


def _keys(ids: np.ndarray) -> list[bytes]:
    data = ids.astype(">u8").tobytes()
    return [data[i : i + 8] for i in range(0, len(data), 8)]


def _split(values: np.ndarray) -> list[bytes]:
    data, size = values.tobytes(), 4 * (DIM + 1)
    return [data[i : i + size] for i in range(0, len(data), size)]


def draw(kind: str, rows: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ids; by Zipf, a rank is the id at a place far from its neighbours."""
    if kind == "even":
        return rng.integers(0, rows, n).astype(np.uint64)
    ranks = (1 + rng.random(n) * (float(rows) ** -0.1 - 1)) ** -10 - 1  # the continuous law of 1.1, cut off
    return placed(np.minimum(ranks, rows - 1).astype(np.uint64), rows)


def placed(ranks: np.ndarray, rows: int) -> np.ndarray:
    """Return the ids of ranks: all rows, in an order without neighbours (the factor is prime)."""
    return ranks * np.uint64(2_654_435_761) % np.uint64(rows)


def batches(kind: str, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    noise = rng.normal(0, 0.1, (SAMPLES * SLOTS, DIM)).astype(np.float32)
    while True:
        ids = np.unique(draw(kind, rows, SAMPLES * SLOTS, rng))
        yield ids, noise[: len(ids)]


def before_hand(kind: str, rows: int) -> Drawn:
    """Draw batches before anything is measured."""
    drawn, size = [], 0
    for ids, gradients in batches(kind, rows):
        drawn.append((ids, gradients))
        size += ids.nbytes
        if size > DRAWN:
            return drawn
    raise AssertionError("there is no last batch")


def disk() -> tuple[int, int]:
    """Bytes that this process has read from the disk and written to it."""
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["read_bytes"]), int(found["write_bytes"])


def run(
    store: Store, options: argparse.Namespace, memory: float | None, drawn: dict[str, Drawn]
) -> list[dict[str, Any]]:
    """Fill and warm one store, then measure it with ids of each kind."""
    rows = int(options.rows)
    resident, start = resident_bytes(), time.perf_counter()
    store.fill(rows)
    filled = time.perf_counter() - start
    if memory is not None:
        often = options.warm if options.store == "rocksdb" else int(store.facts(rows)["hot_rows"])
        often = min(often, rows)
        for first in reversed(range(0, often, WARM)):  # those used most are used last
            ids = placed(np.arange(first, min(first + WARM, often), dtype=np.uint64), rows)
            store.step(ids, np.zeros((len(ids), DIM), np.float32))
    store.step(*next(iter(drawn.values()))[-1])  # loops are compiled
    warmed = time.perf_counter() - start - filled
    found = [measured(store, options, kind, drawn[kind]) for kind in drawn]
    more = {
        "rss_before_gb": resident / 1e9,
        "max_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "fill_s": filled,
        "warm_s": warmed,
        **confined_peak(),
    }
    return [{**each, **more, **store.facts(rows)} for each in found]


def measured(store: Store, options: argparse.Namespace, kind: str, drawn: Drawn) -> dict[str, Any]:
    """Measure a store that is filled."""
    subprocess.run(options.before, shell=True, check=True, stdout=subprocess.DEVNULL)
    try:
        return timed(store, options, kind, drawn)
    finally:
        subprocess.run(options.after, shell=True, check=True, stdout=subprocess.DEVNULL)


def walk(store: Store, ahead: int, drawn: Drawn, computes: Callable[[int], Compute | None]) -> Iterator[float]:
    """Pull and push batches, those to come read ahead; yield the seconds of each. What computes may vary by batch."""
    with ThreadPoolExecutor(max(1, ahead)) as readers:
        reading: list[Future[None]] = [readers.submit(store.ahead, ids) for ids, _ in drawn[:ahead]]
        last = time.perf_counter()
        for n, (ids, gradients) in enumerate(drawn):
            if ahead:
                reading += [readers.submit(store.ahead, following) for following, _ in drawn[n + ahead : n + ahead + 1]]
                reading[n].result()
            store.step(ids, gradients, computes(n))
            now = time.perf_counter()
            yield now - last
            last = now


def timed(store: Store, options: argparse.Namespace, kind: str, drawn: Drawn) -> dict[str, Any]:
    """Measure batches for so many seconds; a part of what was drawn is left for :func:`overlapped`."""
    seconds, ahead = options.seconds, options.ahead if options.store == "ours" else 0
    drawn, rest = (drawn[: 3 * len(drawn) // 4], drawn[3 * len(drawn) // 4 :]) if options.hidden else (drawn, [])
    times: list[float] = []
    reads: list[float] = []
    samples = changed = 0
    before, passed = disk(), 0.0
    for n, took in enumerate(walk(store, ahead, drawn, lambda n: None)):
        passed += took
        if passed < seconds / 2 and n < len(drawn) // 3:  # not measured: the first batches
            before = disk()
            continue
        times.append(took)
        reads.append(store.reads())
        samples, changed = samples + SAMPLES, changed + len(drawn[n][0])
        if passed > 1.5 * seconds:
            break
    read, written = (new - old for new, old in zip(disk(), before, strict=True))
    found = {
        "ids": kind,
        "us_sample": 1e6 * sum(times) / samples,
        "p50_batch_ms": 1e3 * statistics.median(times),
        "p99_batch_ms": 1e3 * float(np.quantile(times, 0.99)),
        "batches": len(times),
        "reads_s": (reads[-1] - reads[0]) / sum(times[1:]) if len(times) > 1 else 0.0,
        "reads_sample_first": _slope(reads[: len(reads) // 4]),
        "reads_sample_last": _slope(reads[-(len(reads) // 4) :]),
        "read_bytes_sample": read / samples,
        "written_bytes_sample": written / samples,
        "written_of_changed_row": written / changed / row_bytes(options.dtype),
    }
    return {**found, **overlapped(store, ahead, options.hidden, rest)} if options.hidden else found


class Layer:
    """A layer with a loss that computes forward and backward, as a training does between pull and push."""

    def __init__(self, hidden: int) -> None:
        rng = np.random.default_rng(3)
        self._weights = rng.normal(0, 0.05, (SLOTS * DIM, hidden)).astype(np.float32)
        self._inputs = np.zeros((SAMPLES, SLOTS * DIM), np.float32)

    def __call__(self, values: np.ndarray) -> None:
        """Compute on values of a batch."""
        flat = self._inputs.reshape(-1, DIM)
        flat[: len(values)] = values
        out = np.maximum(self._inputs @ self._weights, 0)
        self._weights -= np.float32(1e-9) * (self._inputs.T @ out)
        out @ self._weights.T


def overlapped(store: Store, ahead: int, hidden: int, drawn: Drawn) -> dict[str, float]:
    """Measure batches with the table alone and with a layer, in turns of 16; the first of each are left out."""
    layer, turn = Layer(hidden), 16
    values = np.zeros((len(drawn[0][0]), DIM), np.float32)
    alone: list[float] = []
    both: list[float] = []
    computing: list[float] = []
    for n, took in enumerate(walk(store, ahead, drawn, lambda n: layer if n // turn % 2 else None)):
        if n % turn >= turn // 4:
            (both if n // turn % 2 else alone).append(took)
    for _ in range(3 * turn):
        start = time.perf_counter()
        layer(values)
        computing.append(time.perf_counter() - start)
    table, compute, together = (1e3 * statistics.mean(each) for each in (alone, computing, both))
    return {
        "table_ms": table,
        "layer_ms": compute,
        "both_ms": together,
        "both_of_sum": together / (table + compute),
        "both_of_longer": together / max(table, compute),
    }


def _slope(counts: list[float]) -> float:
    return (counts[-1] - counts[0]) / (len(counts) - 1) / SAMPLES if len(counts) > 1 else 0.0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@contextmanager
def confined(extra: float) -> Iterator[None]:
    """Let this process have so many bytes more than now, page cache included: a memory cgroup (version 1).

    What it has by now stays with the group that it comes from.
    """
    group = Path(f"/sys/fs/cgroup/memory/heterps-{os.getpid()}")
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(int(extra)))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        for process in (group / "cgroup.procs").read_text().split():  # what --before and --after left is among them
            (group.parent / "cgroup.procs").write_text(process)
        group.rmdir()


def confined_peak() -> dict[str, float]:
    """Return the most that the kernel counted for this process's cgroup, if it has one of its own."""
    peak = Path(f"/sys/fs/cgroup/memory/heterps-{os.getpid()}/memory.max_usage_in_bytes")
    return {"cgroup_gb": int(peak.read_text()) / 1e9} if peak.exists() else {}


def one(options: argparse.Namespace) -> None:
    """Measure one store in this process, print JSON."""
    rows, memory = int(options.rows), None if options.store == "memory" else options.memory
    drawn = {kind: before_hand(kind, rows) for kind in options.ids.split(",")}
    limit = confined(memory) if options.cgroup and memory is not None else nullcontext()
    with tempfile.TemporaryDirectory(dir=options.folder) as name, limit:
        made: Store = (
            RocksDB(rows, options.rocks_memory or options.memory, Path(name), options.rocks_rows)
            if options.store == "rocksdb"
            else Ours(rows, memory, Path(name), options.dtype)
        )
        print(json.dumps(run(made, options, memory, drawn)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--memory", type=float, default=0.5e9, help="Bytes for each store beyond memory.")
    parser.add_argument("--ids", default="zipf", help="zipf, even, or one after the other: zipf,even")
    parser.add_argument("--dtype", default="float32", choices=VALUE_BYTES, help="Of values in ours; slots are float32.")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm", type=int, default=300_000, help="Rows that RocksDB trains before, at most.")
    parser.add_argument("--rocks-rows", type=float, default=0.0, help="Share of RocksDB's cache that holds rows.")
    parser.add_argument("--rocks-memory", type=float, help="Bytes that RocksDB is told; --memory if not given.")
    parser.add_argument("--hidden", type=int, default=0, help="Width of a layer that computes between pull and push.")
    parser.add_argument("--cgroup", action="store_true", help="Have the kernel hold stores to their memory.")
    parser.add_argument("--ahead", type=int, default=2, help="Batches whose rows ours reads ahead.")
    parser.add_argument("--before", default="true", help="Command to run before each measurement.")
    parser.add_argument("--after", default="true", help="Command to run after each measurement.")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--store", choices=STORES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.store:
        one(options)
        return
    print(f"{options.rows:.0f} rows, {options.memory / 1e9:.1f} GB, load {os.getloadavg()[0]:.1f}", flush=True)
    for store in options.stores.split(","):
        words = [sys.executable, "-m", "benchmarks.beyond_memory", *sys.argv[1:], "--store", store]
        done = subprocess.run(
            words, check=True, stdout=subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
        for kind in found:
            told = (f"{name} {value:.4g}" for name, value in kind.items() if name != "ids")
            print(f"{store:8} {kind['ids']:5}", "  ".join(told), flush=True)


if __name__ == "__main__":
    main()
