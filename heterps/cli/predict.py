"""``heterps predict``: predictions, or other tensors, of a saved model as a Parquet file."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow.csv as pa_csv

from heterps.cli._data import data_options, opened, parse_names
from heterps.cli._device import device_options
from heterps.launching import load
from heterps.parquet import read_parquet
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.runtime.report.output import ENDINGS
from heterps.writing import check_target, ending_of

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps predict model/ --data adult:test --out predictions.parquet
  heterps predict model/ --data items.csv --fetch item_id,item_vector --out items.parquet
"""


@click.command(short_help="Write predictions of a saved model to a Parquet or CSV file.", epilog=_EPILOG)
@click.argument("model", metavar="DIR")
@data_options
@click.option(
    "--out", required=True, metavar="FILE", help=".parquet or .csv file to write; rows in the order of the data."
)
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
    check_target(out, endings=ENDINGS)
    dataset = opened(data, kind, SavedModel.read(Path(model)).form)
    with load(model, engine=engine, device=device, emulate=emulate) as session:
        path = session.predict(dataset, out=out, fetch=parse_names(fetch) or ("prediction",))
    table = pa_csv.read_csv(path) if ending_of(out) == ".csv" else read_parquet(path)
    bad = sum(bool(reason) for reason in table["bad_row"].to_pylist())
    skipped = f", {bad:,} of them null: the column bad_row says why" if bad else ""
    columns = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
    click.echo(f"{table.num_rows:,} rows to {path}{skipped}: {columns}")
