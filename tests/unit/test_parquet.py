"""Whole Parquet files are read in the thread that asks for them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import heterps
from heterps.parquet import read_parquet

PACKAGE = Path(heterps.__file__).parent


def test_paths_files_and_readers_are_read(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(5), "value": np.arange(5.0)})
    pq.write_table(table, tmp_path / "a.parquet")
    with open(tmp_path / "a.parquet", "rb") as file:
        assert read_parquet(file).equals(table)
    assert read_parquet(tmp_path / "a.parquet").equals(table)
    assert read_parquet(pa.BufferReader((tmp_path / "a.parquet").read_bytes())).equals(table)


def threaded_reads(path: Path) -> Iterator[str]:
    """Calls that hand what they read to threads of Arrow."""
    names = {"read_row_group", "read_row_groups", "iter_batches"}
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            alone = any(word.arg == "use_threads" and ast.unparse(word.value) == "False" for word in call.keywords)
            of_parquet = isinstance(call.func.value, ast.Name) and call.func.value.id == "pq"
            if (call.func.attr == "read_table" and of_parquet) or (call.func.attr in names and not alone):
                yield f"{path.relative_to(PACKAGE)}:{call.lineno} {call.func.attr}"


def test_nothing_is_read_by_threads_that_may_outlive_the_interpreter() -> None:
    found = [line for path in PACKAGE.rglob("*.py") for line in threaded_reads(path)]
    assert found == []
