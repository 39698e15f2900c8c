"""Batches for PyTorch straight from files: Criteo-shaped TSV or Parquet, decoded by Arrow, ids by array arithmetic.

What a careful user of PyTorch writes: no Python per row, tokens turned to row numbers in whole columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, IterableDataset

from benchmarks.serve import Settings

BLOCK_BYTES = 8 << 20
BLOCK_ROWS = 1 << 15
AHEAD = 8
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def blocks(chosen: Settings, part: int = 0, parts: int = 1) -> Iterator[Arrays]:
    """Dense features, rows and labels of every ``parts``-th file of the folder, from number ``part``."""
    read = read_tsv if chosen.source == "tsv" else read_parquet
    for path in sorted(Path(chosen.file).iterdir())[part::parts]:
        for block in read(path, column_names(chosen)):
            yield columns(block, chosen)


def read_tsv(path: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    kinds = {name: pa.binary(8) if name[0] == "C" else pa.int32() for name in names}
    yield from pa_csv.open_csv(
        path,
        pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names),
        pa_csv.ParseOptions(delimiter="\t", quote_char=False),
        pa_csv.ConvertOptions(column_types=kinds),
    )


def read_parquet(path: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(BLOCK_ROWS, columns=names, use_threads=False)


def column_names(chosen: Settings) -> list[str]:
    shape = chosen.shape
    return ["label", *(f"I{i + 1}" for i in range(shape.dense)), *(f"C{i + 1}" for i in range(shape.slots))]


def columns(block: pa.RecordBatch, chosen: Settings) -> Arrays:
    shape = chosen.shape
    _, *names = column_names(chosen)
    counts = np.stack([block[name].to_numpy() for name in names[: shape.dense]], axis=1)
    tokens = np.stack([tokens_of(block[name]) for name in names[shape.dense :]], axis=1)
    rows = tokens % shape.ids + np.arange(shape.slots) * shape.ids
    return np.log1p(counts).astype(np.float32), rows, block["label"].to_numpy().astype(np.float32)


def tokens_of(column: pa.Array) -> np.ndarray:
    """Integers as they stand, or eight hexadecimal digits a value as the number they spell."""
    if pa.types.is_integer(column.type):
        return column.to_numpy().astype(np.int64)
    first, count = column.offset * 8, len(column) * 8
    digits = np.frombuffer(column.buffers()[1], np.uint8, count, first).reshape(-1, 8)
    values = (digits & 15) + 9 * (digits >> 6)
    return values.astype(np.int64) @ (16 ** np.arange(7, -1, -1, dtype=np.int64))


class Batches(IterableDataset):
    """Whole batches, pass after pass."""

    def __init__(self, chosen: Settings, part: int = 0, parts: int = 1) -> None:
        super().__init__()
        self.chosen, self.part, self.parts = chosen, part, parts

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        torch.set_num_threads(1)
        size, rest = self.chosen.batch, None
        while True:
            for block in blocks(self.chosen, self.part, self.parts):
                held = block if rest is None else tuple(map(np.concatenate, zip(rest, block, strict=True)))
                whole = len(held[2]) // size * size
                for i in range(0, whole, size):
                    yield tuple(torch.from_numpy(column[i : i + size]) for column in held)
                rest = tuple(column[whole:] for column in held)


def from_files(chosen: Settings) -> Iterator[tuple[torch.Tensor, ...]]:
    """Batches made by a process beside the trainer's."""
    return iter(DataLoader(Batches(chosen), batch_size=None, num_workers=1, prefetch_factor=AHEAD))
