"""``heterps predict``: predictions, or other tensors, of a saved model as a Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pyarrow.parquet as pq

from heterps.cli._data import data_options, opened, parse_names
from heterps.cli._device import device_options
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.session import load
from heterps.writing import check_target

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps predict model/ --data adult:test --out predictions.parquet
  heterps predict model/ --data items.csv --fetch item_id,item_vector --out items.parquet
"""


@click.command(short_help="Write predictions of a saved model to a Parquet file.", epilog=_EPILOG)
@click.argument("model", metavar="DIR")
@data_options
@click.option("--out", required=True, metavar="FILE", help="Parquet file to write; rows in the order of the data.")
@click.option(
    "--fetch",
    multiple=True,
    metavar="NAME",
    help="prediction (the default), an output or op of the graph, any column of the data; several, or as a,b,c.",
)
@click.option("--engine", default="auto", show_default=True, help="auto, dask, or inline (no Dask).")
@device_options
def command(
    model: str,
    data: tuple[str, ...],
    kind: str,
    out: str,
    fetch: tuple[str, ...],
    engine: str,
    device: str,
    emulate: bool,
) -> None:
    """Predict with the model that `heterps train --out DIR` or session.save(DIR) wrote. No label is needed."""
    check_target(out)
    dataset = opened(data, kind, SavedModel.read(Path(model)).form)
    with load(model, engine=engine, device=device, emulate=emulate) as session:
        path = session.predict(dataset, out=out, fetch=parse_names(fetch) or ("prediction",))
    schema = pq.read_schema(path)
    rows, bad = pq.read_metadata(path).num_rows, _bad_rows(path)
    skipped = f", {bad:,} of them null: the column bad_row says why" if bad else ""
    click.echo(f"{rows:,} rows to {path}{skipped}: {', '.join(f'{field.name} ({field.type})' for field in schema)}")


def _bad_rows(path: Any) -> int:
    column = pq.read_table(path, columns=["bad_row"])["bad_row"]
    return len(column) - int(column.null_count)
