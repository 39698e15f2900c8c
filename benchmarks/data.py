"""Readers side by side: ``python -m benchmarks.data [--rows N] [--rounds N]``.

Criteo-like rows (13 counts, 26 eight-digit hashes of very different cardinality, some missing) are written once as TSV
and as Parquet. Each round runs, one after another in this process: our TSV reader, pandas.read_csv(engine="pyarrow"),
our Parquet reader on integer and on text categories, pyarrow's bare decoding of both files. Ours end with ids hashed
and numbers log-transformed in batch buffers; the others with raw columns. Rates are per CPU second of the process (one
core), ratios within a round, and the median over rounds is reported.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from heterps.data import Criteo, Dataset, Salted, Schema, parquet, sparse
from heterps.data.text.criteo import CATEGORIES, CRITEO_COLUMNS, criteo_schema

FOLDER = Path(__file__).parent / ".data"
BATCH = 4096
# Orders of magnitude of the distinct values of C1 .. C26 in the display-advertising data.
CARDINALITY = [
    1e3,
    500,
    1e7,
    2e6,
    300,
    25,
    1e4,
    600,
    3,
    9e4,
    5e3,
    8e6,
    3e3,
    27,
    1e4,
    5e6,
    10,
    5e3,
    2e3,
    4,
    7e6,
    18,
    15,
    3e5,
    1e2,
    1e5,
]


def make_table(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {"label": pa.array((rng.random(rows) < 0.25).astype(np.int32))}
    for i in range(1, 14):
        counts = np.floor(rng.lognormal(1.0 + i % 5, 1.5, rows)).astype(np.int32)
        columns[f"I{i}"] = pa.array(counts, mask=rng.random(rows) < 0.15)
    for i, size in enumerate(CARDINALITY, start=1):
        rank = (size ** rng.random(rows)).astype(np.uint64)  # log-uniform: a few values cover most rows
        hashes = (rank * np.uint64(2654435761) + np.uint64(i * 40503)) & np.uint64(0xFFFFFFFF)
        distinct, index = np.unique(hashes, return_inverse=True)
        text = pa.array([f"{value:08x}" for value in distinct.tolist()])
        values = pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), text).cast(pa.string())
        missing = pa.array(rng.random(rows) < (0.1 if i % 4 == 0 else 0.0))
        columns[f"C{i}"] = pa.compute.if_else(missing, pa.scalar(""), values)
    return pa.table({name: columns[name] for name in CRITEO_COLUMNS})


def with_integers(table: pa.Table) -> pa.Table:
    """The same categories as the integers their hexadecimal digits spell, null where missing."""
    for name in CATEGORIES:
        distinct = table[name].combine_chunks().dictionary_encode()
        numbers = pa.array([int(text, 16) if text else None for text in distinct.dictionary.to_pylist()], pa.uint32())
        table = table.set_column(table.schema.get_field_index(name), name, numbers.take(distinct.indices))
    return table


def integer_schema() -> Schema:
    x, y = (criteo_schema()[name] for name in ("x", "y"))
    return Schema.of(sparse("ids", *(Salted(name) for name in CATEGORIES)), x, y)


def make_files(rows: int) -> tuple[Path, Path, Path]:
    names = (f"criteo-like-{rows}.tsv", f"criteo-like-{rows}.parquet", f"criteo-like-{rows}-integers.parquet")
    text, columnar, integers = (FOLDER / name for name in names)
    if not (text.exists() and columnar.exists() and integers.exists()):
        FOLDER.mkdir(parents=True, exist_ok=True)
        table = make_table(rows)
        options = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        pa_csv.write_csv(table, text, options)
        pq.write_table(table, columnar)
        pq.write_table(with_integers(table), integers)
    return text, columnar, integers


def read_all(data: Dataset) -> int:
    return sum(batch.size for split in data.splits() for batch in data.read(split, batch_size=BATCH))


def read_pandas(path: Path) -> int:
    return len(pd.read_csv(path, sep="\t", header=None, names=list(CRITEO_COLUMNS), engine="pyarrow"))


def decode_only(path: Path) -> int:
    with pq.ParquetFile(path) as file:
        return sum(batch.num_rows for batch in file.iter_batches(1 << 16, use_threads=False))


def rows_per_cpu_second(work: Callable[[], int]) -> float:
    begin = time.process_time()
    rows = work()
    return rows / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    text, columnar, integers = make_files(chosen.rows)
    bytes_per_row = text.stat().st_size / chosen.rows
    runs: dict[str, Callable[[], int]] = {
        "TSV, ours": lambda: read_all(Criteo(text)),
        "TSV, pandas (pyarrow)": lambda: read_pandas(text),
        "Parquet (integers), ours": lambda: read_all(parquet(integers, integer_schema())),
        "Parquet (integers), decode only": lambda: decode_only(integers),
        "Parquet (text), ours": lambda: read_all(parquet(columnar, criteo_schema())),
        "Parquet (text), decode only": lambda: decode_only(columnar),
    }
    pa.set_cpu_count(1)
    for work in runs.values():
        work()  # compile, and bring the files into the page cache
    rounds = [{name: rows_per_cpu_second(work) for name, work in runs.items()} for _ in range(chosen.rounds)]
    report(rounds, bytes_per_row)


def report(rounds: list[dict[str, float]], bytes_per_row: float) -> None:
    print(f"{len(rounds)} rounds, {bytes_per_row:.0f} bytes a row as text; per CPU second (one core), medians")
    for name in rounds[0]:
        rate = statistics.median(r[name] for r in rounds)
        print(f"  {name:32} {rate / 1e6:6.2f} M rows/s   {rate * bytes_per_row / 1e6:6.0f} MB/s of text")
    pairs = [
        ("TSV, ours", "TSV, pandas (pyarrow)"),
        ("Parquet (integers), ours", "TSV, ours"),
        ("Parquet (text), ours", "TSV, ours"),
    ]
    for above, below in pairs:
        ratios = sorted(r[above] / r[below] for r in rounds)
        print(f"  {above} / {below}: {statistics.median(ratios):.2f}x ({ratios[0]:.2f} .. {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
