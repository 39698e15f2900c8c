"""``heterps evaluate``: metrics of a saved model on data."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

from heterps.cli._data import data_options, opened, parse_names
from heterps.cli._device import device_options
from heterps.launching import load
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.screen import Screen

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps evaluate model/ --data adult:test
  heterps evaluate model/ --data 'valid-*.tsv' --metric auc,logloss,accuracy --json
"""


@click.command(short_help="Measure a saved model on files.", epilog=_EPILOG)
@click.argument("model", metavar="DIR")
@data_options
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="May be given several times, or as a,b,c.")
@click.option("--engine", default="auto", show_default=True, help="auto, dask, or inline (no Dask).")
@device_options
@click.option("--allow-empty", is_flag=True, help="Accept data without a single usable row.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(
    model: str,
    data: tuple[str, ...],
    kind: str,
    metrics: tuple[str, ...],
    engine: str,
    device: str,
    emulate: bool,
    allow_empty: bool,
    as_json: bool,
) -> None:
    """Measure the model that `heterps train --out DIR` or session.save(DIR) wrote."""
    dataset = opened(data, kind, SavedModel.read(Path(model)).form)
    with load(model, engine=engine, device=device, emulate=emulate) as session:
        results = session.evaluate(dataset, parse_names(metrics) or None, allow_empty=allow_empty)
    if as_json:
        click.echo(json.dumps(results, default=float))
        return
    table = Table()
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in results.items():
        table.add_row(name, f"{value:.5f}" if isinstance(value, float) else str(value))
    Screen().print(table)
