"""Every built-in reader keeps the contract for readers."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heterps.data import (
    Dataset,
    Id,
    Number,
    Schema,
    arrays,
    csv,
    dense,
    frame,
    generator,
    idx,
    image_folder,
    json_lines,
    label,
    open_dataset,
    sparse,
    tsv,
)
from heterps.data.core.formats import READERS
from heterps.testing import ReaderContract

ROWS = 300
SCHEMA = Schema.of(sparse("ids", Id("a"), Id("b")), dense("x", Number("c")), label("y", Number("d")))


def row(i: int) -> tuple[Any, ...]:
    return ([i, 7 * i], [i / 4], float(i % 2))


def table() -> dict[str, np.ndarray]:
    i = np.arange(ROWS)
    return {"a": i, "b": 7 * i, "c": i / 4, "d": (i % 2).astype(float)}


def text(separator: str) -> str:
    head = separator.join("abcd")
    lines = (separator.join(map(str, (i, 7 * i, i / 4, i % 2))) for i in range(ROWS))
    return "\n".join([head, *lines]) + "\n"


class Rows(ReaderContract):
    def expected(self) -> list[tuple[Any, ...]]:
        return [row(i) for i in range(ROWS)]


class TestCsv(Rows):
    def dataset(self, folder: Path) -> Dataset:
        (folder / "a.csv").write_text(text(","))
        return csv(folder / "a.csv", SCHEMA, split_cost=1200)

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        (folder / "b.csv").write_text(text(",") + "1,2,x,0\n1,2\n")
        return csv(folder / "b.csv", SCHEMA), 2


class TestTsv(Rows):
    def dataset(self, folder: Path) -> Dataset:
        (folder / "a.tsv").write_text(text("\t"))
        return tsv(folder / "a.tsv", SCHEMA, split_cost=1200)

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        (folder / "b.tsv").write_text(text("\t") + "1\t2\n")
        return tsv(folder / "b.tsv", SCHEMA), 1


class TestParquet(Rows):
    def dataset(self, folder: Path) -> Dataset:
        pq.write_table(pa.table(table()), folder / "a.parquet", row_group_size=60)
        return READERS["parquet"](folder / "a.parquet", SCHEMA, split_cost=1)

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        pq.write_table(pa.table({**table(), "a": np.arange(ROWS) - 3}), folder / "b.parquet")
        return READERS["parquet"](folder / "b.parquet", SCHEMA), 3


class TestJsonLines(Rows):
    def text(self) -> str:
        columns = {name: values.tolist() for name, values in table().items()}
        return "".join(
            json.dumps(dict(zip("abcd", row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
        )

    def dataset(self, folder: Path) -> Dataset:
        (folder / "a.jsonl").write_text(self.text())
        return json_lines(folder / "a.jsonl", SCHEMA, split_cost=3000)

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        (folder / "b.jsonl").write_text(self.text() + '{"a": 1, "b": 2, "c": "x", "d": 0}\n{"a": 1,\n')
        return json_lines(folder / "b.jsonl", SCHEMA), 2


class TestFrame(Rows):
    def dataset(self, folder: Path) -> Dataset:
        return frame(pd.DataFrame(table()), SCHEMA, split_cost=70)


class TestArrays(Rows):
    def dataset(self, folder: Path) -> Dataset:
        t = table()
        return arrays({"ids": np.stack([t["a"], t["b"]], 1), "x": t["c"][:, None], "y": t["d"]}, split_cost=70)


def made(shard: int):  # type: ignore[no-untyped-def]
    for i in range(100 * shard, 100 * shard + 100):
        ids, x, y = row(i)
        yield {"ids": ids, "x": x, "y": y}


@pytest.mark.full  # starts a Python for every Split it reads
class TestGenerator(Rows):
    def dataset(self, folder: Path) -> Dataset:
        return generator(made, Schema.of(sparse("ids", shape=(2,)), dense("x", shape=(1,)), label("y")), shards=3)


class TestSlots(ReaderContract):
    def dataset(self, folder: Path) -> Dataset:
        (folder / "s.log").write_text("".join(f"click:{i % 2} 2:{i + 1} 3:{i + 5}\n" for i in range(ROWS)))
        return open_dataset(folder / "s.log", "slots", split_cost=1200)

    def expected(self) -> list[tuple[Any, ...]]:
        return [([i + 1, i + 5], float(i % 2)) for i in range(ROWS)]

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        (folder / "t.log").write_text("click:1 2:3 3:4\nclick:1 2:x 3:4\n")
        return open_dataset(folder / "t.log", "slots"), 1


class TestIdx(ReaderContract):
    def dataset(self, folder: Path) -> Dataset:
        pixels = np.arange(ROWS, dtype=np.uint8 if ROWS < 256 else np.uint16)
        images = np.stack([pixels % 256, pixels // 256], 1).astype(np.uint8)[:, :, None]
        for name, array in (("i", images), ("l", (pixels % 10).astype(np.uint8))):
            head = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
            (folder / name).write_bytes(head + array.tobytes())
        return idx(folder / "i", folder / "l", split_cost=90)

    def expected(self) -> list[tuple[Any, ...]]:
        def pixel(v: int) -> list[list[float]]:
            return [[float(np.float32(v) / np.float32(255))]]

        return [([pixel(i % 256), pixel(i // 256)], float(i % 10)) for i in range(ROWS)]


class TestImages(ReaderContract):
    def dataset(self, folder: Path) -> Dataset:
        image = pytest.importorskip("PIL.Image")
        for name in ("cat", "dog"):
            (folder / name).mkdir(exist_ok=True)
        for i in range(120):
            image.new("RGB", (1, 1), (i, 0, 0)).save(folder / ("cat", "dog")[i % 2] / f"{i:03}.png")
        return image_folder(folder, size=(1, 1), split_cost=40)

    def expected(self) -> list[tuple[Any, ...]]:
        red = np.arange(120, dtype=np.float32) * np.float32(1 / 255)
        return [([[[float(red[i]), 0.0, 0.0]]], float(i % 2)) for i in range(120)]

    def damaged(self, folder: Path) -> tuple[Dataset, int]:
        data = self.dataset(folder)
        (folder / "cat" / "no.png").write_bytes(b"no picture")
        return image_folder(folder, size=data.size), 1
