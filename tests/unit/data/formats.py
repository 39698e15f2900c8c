"""The same rows in every format: (number, label), None where a value is missing."""

import gzip
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heterps.data import (
    Criteo,
    Dataset,
    Id,
    Number,
    Schema,
    arrays,
    csv,
    dense,
    frame,
    generator,
    json_lines,
    label,
    parquet,
    slot_text,
    sparse,
    tsv,
)

Row = tuple[float | None, float | None]
FIELDS = Schema.of(sparse("ids", Id("i")), dense("x", Number("x")), label("y", Number("y")))
SHAPED = Schema.of(sparse("ids", shape=(1,)), dense("x", shape=(1,)), label("y"))


def _text(value: float | None) -> str:
    return "" if value is None else repr(value)


def _lines(rows: Sequence[Row], delimiter: str) -> str:
    body = (delimiter.join((str(i), _text(x), _text(y))) for i, (x, y) in enumerate(rows))
    return "".join(f"{line}\n" for line in (delimiter.join("ixy"), *body))


def _csv(folder: Path, rows: Sequence[Row]) -> Dataset:
    (folder / "a.csv").write_text(_lines(rows, ","))
    return csv(folder / "a.csv", FIELDS)


def _tsv(folder: Path, rows: Sequence[Row]) -> Dataset:
    (folder / "a.tsv").write_text(_lines(rows, "\t"))
    return tsv(folder / "a.tsv", FIELDS)


def _gzip(folder: Path, rows: Sequence[Row]) -> Dataset:
    (folder / "a.csv.gz").write_bytes(gzip.compress(_lines(rows, ",").encode()))
    return csv(folder / "a.csv.gz", FIELDS)


def _zstd(folder: Path, rows: Sequence[Row]) -> Dataset:
    with pa.CompressedOutputStream(str(folder / "a.csv.zst"), "zstd") as file:
        file.write(_lines(rows, ",").encode())
    return csv(folder / "a.csv.zst", FIELDS)


def _pipe(folder: Path, rows: Sequence[Row]) -> Dataset:
    (folder / "a.csv").write_text(_lines(rows, ","))
    return csv(folder / "a.csv", FIELDS, pipe_command="cat")


def _criteo(folder: Path, rows: Sequence[Row]) -> Dataset:
    body = ("\t".join([_text(y), _text(x), *[""] * 12, *[str(i)] * 26]) for i, (x, y) in enumerate(rows))
    (folder / "a").write_text("".join(f"{line}\n" for line in body))
    return Criteo(folder / "a")


def _slots(style: str) -> Callable[[Path, Sequence[Row]], Dataset]:
    def token(name: str, value: float | None) -> str:
        if style == "counted":
            return "0" if value is None else f"1 {value!r}"
        if value is None:
            return ""
        return f"{name}:{value!r}" if style == "name:value" else f"{value!r}:{name}"

    def make(folder: Path, rows: Sequence[Row]) -> Dataset:
        body = (" ".join((token("i", i), token("x", x), token("y", y))) for i, (x, y) in enumerate(rows))
        (folder / "a.txt").write_text("".join(f"{line}\n" for line in body))
        return slot_text(folder / "a.txt", FIELDS, style=style)

    return make


def _columns(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    return {"i": list(range(len(rows))), "x": [x for x, _ in rows], "y": [y for _, y in rows]}


def _parquet(folder: Path, rows: Sequence[Row]) -> Dataset:
    pq.write_table(pa.table(_columns(rows)), folder / "a.parquet", row_group_size=4)
    return parquet(folder / "a.parquet", FIELDS)


def _json_lines(folder: Path, rows: Sequence[Row]) -> Dataset:
    names = ({"i": i, "x": x, "y": y} for i, (x, y) in enumerate(rows))
    body = ({name: value for name, value in row.items() if value is not None} for row in names)
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in body))
    return json_lines(folder / "a.jsonl", FIELDS, columns=["x", "y"])


def _arrow(folder: Path, rows: Sequence[Row]) -> Dataset:
    return frame(pa.table(_columns(rows)), FIELDS)


def _pandas(folder: Path, rows: Sequence[Row]) -> Dataset:
    import pandas as pd

    return frame(pd.DataFrame(_columns(rows)), FIELDS)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _arrays(folder: Path, rows: Sequence[Row]) -> Dataset:
    x, y = np.array([_number(x) for x, _ in rows], np.float32), np.array([_number(y) for _, y in rows], np.float32)
    return arrays({"ids": np.arange(len(rows)).reshape(-1, 1), "x": x.reshape(-1, 1), "y": y})


def _generator(folder: Path, rows: Sequence[Row]) -> Dataset:
    def make(shard: int):  # type: ignore[no-untyped-def]
        for i, (x, y) in enumerate(rows):
            yield {"ids": [i], "x": [x], "y": y}

    return generator(make, SHAPED)


def _persisted(folder: Path, rows: Sequence[Row]) -> Dataset:
    return _csv(folder, rows).persist()


FORMATS: dict[str, Callable[[Path, Sequence[Row]], Dataset]] = {
    "csv": _csv,
    "tsv": _tsv,
    "gzip": _gzip,
    "zstd": _zstd,
    "pipe": _pipe,
    "criteo": _criteo,
    "name:value": _slots("name:value"),
    "value:name": _slots("value:name"),
    "counted": _slots("counted"),
    "parquet": _parquet,
    "jsonl": _json_lines,
    "arrow": _arrow,
    "pandas": _pandas,
    "arrays": _arrays,
    "generator": _generator,
    "persisted": _persisted,
}
