"""Tables beyond memory: ours, RocksDB and the same table in memory, on the same batches.

``python -m benchmarks.beyond_memory --rows 1e7 --memory 5e8`` fills a table of dim 16 with row-wise AdaGrad, then pulls
and pushes batches of 4096 samples with 26 ids, drawn by Zipf 1.1 or evenly. Each store runs in a process of its own;
all go past the page cache (``O_DIRECT``), so that memory is what it is given: for ours rows in memory, index and
buffers, for RocksDB (``pip install rocksdict``) its caches and memtables. Before it is measured, each store has
trained the ids drawn most often, as many as ours has memory for (RocksDB: ``--warm``). A batch is made unique before;
its gradients are the same for all. The next batch's ids are read ahead by ours (``--ahead 0``: not).

Printed: microseconds a sample, the 99th percentile of a batch, bytes that the process read from and wrote to the disk a
sample (``/proc/self/io``), bytes written for each changed row as a multiple of the row, bytes of the index a row, and
the largest resident memory.
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
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from heterps.protocol import BatchKey
from heterps.tables import GroupSpec, RowGradients, RowWiseAdaGrad, Shard, TableSpec

DIM, SAMPLES, SLOTS, RATE = 16, 4096, 26, 0.01
ROW_BYTES = 8 + 4 * (DIM + 1)  # id, values, the rule's slot
CHUNK, WARM = 1 << 20, 1 << 17
VALUES = np.random.default_rng(1).random((CHUNK, DIM + 1), np.float32)  # of every million rows
STORES = ("memory", "ours", "rocksdb")


class Store(Protocol):
    """What is measured."""

    def fill(self, rows: int) -> None:
        """Begin with these rows."""

    def step(self, ids: np.ndarray, gradients: np.ndarray) -> None:
        """Pull and push one batch."""

    def ahead(self, ids: np.ndarray) -> None:
        """Read rows that will be asked for."""

    def facts(self, rows: int) -> dict[str, float]:
        """Return figures of its own."""


class Ours:
    """A table of this package, in memory or beyond."""

    def __init__(self, rows: int, memory: float | None, folder: Path) -> None:
        storage = "memory" if memory is None else "ssd"
        group = GroupSpec("g", (TableSpec("t", DIM, RowWiseAdaGrad(RATE)),), storage=storage)  # type: ignore[arg-type]
        hot = None if memory is None else int(max(memory - 12 * rows - 64e6, 1e6))
        self.shard = Shard([group], folder=folder, hot_bytes=hot)
        self.group, self.steps = self.shard.group("g"), 0

    def fill(self, rows: int) -> None:
        """Begin with these rows."""
        values, slots = VALUES[:, :DIM].copy(), VALUES[:, DIM:].copy()
        for first in range(0, rows, CHUNK):
            ids = np.arange(first, min(first + CHUNK, rows), dtype=np.uint64)
            self.group.append({"id": ids, "t": values[: len(ids)], "t.slots": slots[: len(ids)]})
        self.group.build_index()

    def step(self, ids: np.ndarray, gradients: np.ndarray) -> None:
        """Pull and push one batch."""
        pulled = self.shard.pull("g", ids)
        rows = RowGradients(ids, gradients, pulled.rows)
        self.shard.apply(BatchKey(0, 0, self.steps), {"g": rows})
        self.steps += 1

    def ahead(self, ids: np.ndarray) -> None:
        """Read rows that will be asked for."""
        self.shard.prefetch("g", ids)

    def facts(self, rows: int) -> dict[str, float]:
        """Return figures of its own."""
        (part,) = self.group.partitions
        if not hasattr(part, "cold"):
            return {"index_bytes_row": 8.0 * int(part.meta[0]) / rows}
        return {
            "index_bytes_row": (part.cold.nbytes + 8 * int(part.hot.meta[0]) + 4 * part.capacity) / rows,
            "hot_rows": float(part.capacity),
            "file_of_rows": part.cold.log.nbytes / (rows * ROW_BYTES),
        }


class RocksDB:
    """RocksDB through rocksdict: filled by sorted files, multi-gets and write batches, no log of writes."""

    def __init__(self, rows: int, memory: float, folder: Path) -> None:
        import rocksdict

        self._rocks, self._folder, self._path = rocksdict, folder, str(folder / "rocks")
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_use_direct_reads(True)
        options.set_use_direct_io_for_flush_and_compaction(True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        options.increase_parallelism(2)
        options.set_write_buffer_size(64 << 20)
        options.set_max_write_buffer_number(3)
        options.set_level_compaction_dynamic_level_bytes(True)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(int(max(memory - 3 * (64 << 20), 8e6))))
        table.set_block_size(4096)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options.set_block_based_table_factory(table)
        self._options = options
        self._db = rocksdict.Rdict(self._path, options)
        wanted = rocksdict.WriteOptions()
        wanted.disable_wal = True
        self._db.set_write_options(wanted)

    def fill(self, rows: int) -> None:
        """Begin with these rows."""
        paths, rows_of_chunk = [], _split(VALUES)
        for first in range(0, rows, 10 * CHUNK):
            writer = self._rocks.SstFileWriter(self._options)
            paths.append(str(self._folder / f"{first}.sst"))
            writer.open(paths[-1])
            for start in range(first, min(first + 10 * CHUNK, rows), CHUNK):
                ids = np.arange(start, min(start + CHUNK, rows, first + 10 * CHUNK), dtype=np.uint64)
                for key, value in zip(_keys(ids), rows_of_chunk[: len(ids)], strict=True):
                    writer[key] = value
            writer.finish()
        take = self._rocks.IngestExternalFileOptions()
        take.set_move_files(True)
        self._db.ingest_external_file(paths, take)

    def step(self, ids: np.ndarray, gradients: np.ndarray) -> None:
        """Pull and push one batch."""
        keys = _keys(ids)
        values = np.frombuffer(b"".join(self._db.get(keys)), np.float32).reshape(-1, DIM + 1).copy()
        values[:, DIM] += np.mean(gradients**2, 1)
        values[:, :DIM] -= RATE * gradients / (np.sqrt(values[:, DIM:]) + np.float32(1e-10))
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key, value in zip(keys, _split(values), strict=True):
            batch.put(key, value)
        self._db.write(batch)

    def ahead(self, ids: np.ndarray) -> None:
        """Read rows that will be asked for."""

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


def disk() -> tuple[int, int]:
    """Bytes that this process has read from the disk and written to it."""
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["read_bytes"]), int(found["write_bytes"])


def run(store: Store, options: argparse.Namespace, memory: float | None) -> dict[str, float]:
    """Fill, warm and measure one store."""
    kind, rows, seconds = options.ids, int(options.rows), options.seconds
    ahead = bool(options.ahead) and options.store == "ours"
    start = time.perf_counter()
    store.fill(rows)
    filled = time.perf_counter() - start
    if memory is not None:
        often = min(rows, int((memory - 12 * rows) / (ROW_BYTES + 32)))
        often = min(often, options.warm) if options.store == "rocksdb" else often
        for first in reversed(range(0, often, WARM)):  # those used most are used last
            ids = placed(np.arange(first, min(first + WARM, often), dtype=np.uint64), rows)
            store.step(ids, np.zeros((len(ids), DIM), np.float32))
    warmed = time.perf_counter() - start - filled
    drawn = batches(kind, rows)
    following = next(drawn)
    times: list[float] = []
    samples = changed = 0
    before, began, spent = disk(), 0.0, 0.0
    while spent < 1.5 * seconds:
        (ids, gradients), following = following, next(drawn)
        start = time.perf_counter()
        reader = threading.Thread(target=store.ahead, args=(following[0],))
        if ahead:
            reader.start()
        store.step(ids, gradients)
        if ahead:
            reader.join()
        took = time.perf_counter() - start
        spent += took
        if spent < seconds / 2:  # not measured: the first batches
            before, began = disk(), spent
            continue
        times.append(took)
        samples, changed = samples + SAMPLES, changed + len(ids)
    read, written = (now - then for now, then in zip(disk(), before, strict=True))
    return {
        "us_sample": 1e6 * (spent - began) / samples,
        "p50_batch_ms": 1e3 * statistics.median(times),
        "p99_batch_ms": 1e3 * float(np.quantile(times, 0.99)),
        "batches": len(times),
        "read_bytes_sample": read / samples,
        "written_bytes_sample": written / samples,
        "written_of_changed_row": written / changed / ROW_BYTES,
        "max_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "fill_s": filled,
        "warm_s": warmed,
        **store.facts(rows),
    }


def one(options: argparse.Namespace) -> None:
    """Measure one store in this process, print JSON."""
    rows, memory = int(options.rows), None if options.store == "memory" else options.memory
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        made: Store = (
            RocksDB(rows, memory, Path(folder)) if options.store == "rocksdb" else Ours(rows, memory, Path(folder))
        )
        print(json.dumps(run(made, options, memory)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--memory", type=float, default=0.5e9, help="Bytes for each store beyond memory.")
    parser.add_argument("--ids", choices=("zipf", "even"), default="zipf")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm", type=int, default=300_000, help="Rows that RocksDB trains before, at most.")
    parser.add_argument("--ahead", type=int, default=1)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--store", choices=STORES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.store:
        one(options)
        return
    print(f"{options.rows:.0f} rows, {options.ids} ids, {options.memory / 1e9:.1f} GB, load {os.getloadavg()[0]:.1f}")
    for store in options.stores.split(","):
        words = [sys.executable, "-m", "benchmarks.beyond_memory", *sys.argv[1:], "--store", store]
        found: dict[str, Any] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        print(f"{store:8}", "  ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
