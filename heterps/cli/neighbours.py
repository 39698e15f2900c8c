"""``heterps neighbours``: an index of vectors, and the nearest of them to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from heterps.errors import DataError
from heterps.parquet import read_parquet
from heterps.serving.neighbours import Neighbours
from heterps.writing import check_target, whole_file

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps predict model/ --data items.csv --fetch item_id,item_vector --out items.parquet
  heterps neighbours build items.parquet films/ --id item_id --vector item_vector --approximate
  heterps predict model/ --data users.csv --fetch user_id,user_vector --out users.parquet
  heterps neighbours search films/ users.parquet --vector user_vector -k 20 --out near.parquet
"""


@click.group(short_help="Index item vectors and find the nearest ones.", epilog=_EPILOG)
def command() -> None:
    """Index vectors that `heterps predict` wrote, and search them: exactly, or by an approximate index."""


@command.command()
@click.argument("vectors", metavar="FILE")
@click.argument("out", metavar="OUT")
@click.option("--id", "id_", default="item_id", show_default=True, help="Column with ids: whole numbers, each once.")
@click.option("--vector", default="item_vector", show_default=True, help="Column with vectors.")
@click.option("--cosine", is_flag=True, help="Compare by cosine instead of dot product.")
@click.option("--approximate", is_flag=True, help="Build the approximate index too (needs the extra neighbours).")
def build(vectors: str, out: str, id_: str, vector: str, cosine: bool, approximate: bool) -> None:
    """Write the vectors of a Parquet FILE to the new folder OUT."""
    table = _read(vectors, id_, vector)
    likeness: Any = "cosine" if cosine else "dot"
    made = Neighbours.build(
        out, table[id_].to_numpy(), _matrix(table[vector], vector), likeness=likeness, approximate=approximate
    )
    index = ", and an approximate index" if approximate else ""
    click.echo(f"{len(made):,} vectors of {made.dim} numbers to {out}{index}")


@command.command()
@click.argument("index", metavar="INDEX")
@click.argument("vectors", metavar="FILE")
@click.option("--vector", default="user_vector", show_default=True, help="Column with vectors.")
@click.option("-k", "count", default=20, show_default=True, help="How many to find.")
@click.option("--approximate", is_flag=True, help="Search the approximate index.")
@click.option("--out", required=True, metavar="FILE", help="Parquet file: the columns of FILE, neighbours and scores.")
def search(index: str, vectors: str, vector: str, count: int, approximate: bool, out: str) -> None:
    """Find the neighbours of the vectors in a Parquet FILE."""
    check_target(out, endings=(".parquet",))
    found = Neighbours(index, approximate=approximate)
    table = _read(vectors, vector)
    ids, scores = found.search(_matrix(table[vector], vector), count)
    table = (
        table.drop_columns([vector]).append_column("neighbours", _lists(ids)).append_column("scores", _lists(scores))
    )
    with whole_file(out, "wb") as file:
        pq.write_table(table, file)
    click.echo(f"{ids.shape[1]} neighbours of {len(ids):,} vectors among {len(found):,} to {out}")


def _read(path: str, *columns: str) -> pa.Table:
    try:
        table = read_parquet(Path(path))
    except (pa.ArrowException, FileNotFoundError) as error:
        raise DataError(f"{path} is no Parquet file that can be read: {error}") from error
    for name in columns:
        if name not in table.column_names:
            raise DataError(f"{path} has no column {name!r}; it has {', '.join(table.column_names)}")
    return table


def _matrix(column: Any, name: str) -> npt.NDArray[np.float32]:
    """Return lists of one length as rows."""
    array = column.combine_chunks()
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(check(array.type) for check in kinds) or array.null_count:
        raise DataError(f"column {name!r} is {array.type}, expected lists of numbers and none missing")
    lengths = (
        set(array.value_lengths().to_pylist())
        if not pa.types.is_fixed_size_list(array.type)
        else {array.type.list_size}
    )
    flat = array.flatten()
    if len(lengths) != 1 or flat.null_count or not (pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type)):
        raise DataError(f"column {name!r} has vectors of {sorted(lengths)} numbers, expected one length")
    rows: npt.NDArray[np.float32] = flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(array), -1)
    return rows


def _lists(array: npt.NDArray[Any]) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])
