"""``heterps export``: a saved model for others to score with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click
from rich.table import Table

from heterps.cli._data import opened, sample_options
from heterps.export.exporting import Onnx, export_model
from heterps.export.measuring import loss_of_encoding
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.screen import Screen
from heterps.serving.manifest import DENSE, ONNX, Encoding, Export, ExportKind, FileFormat

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps export model/ export/
  heterps export model/ export/ --kind changes
  heterps export model/ small/ --rows int8 --data adult:test
"""


@click.command(short_help="Export a saved model for serving: rows, ONNX, one manifest.", epilog=_EPILOG)
@click.argument("model", metavar="MODEL")
@click.argument("out", metavar="OUT")
@click.option(
    "--kind",
    "export_kind",
    type=click.Choice(get_args(ExportKind)),
    default="full",
    show_default=True,
    help="All rows; exactly what changed since the newest export in OUT; the vendors' delta or base save.",
)
@click.option("--files", type=click.Choice(get_args(FileFormat)), help="Of rows [default: as before, else arrow].")
@click.option(
    "--rows", type=click.Choice(get_args(Encoding)), help="Numbers in rows [default: as before, else float32]."
)
@click.option(
    "--onnx", type=click.Choice(get_args(Onnx)), default="auto", show_default=True, help="Whether to write ONNX."
)
@sample_options("With labels: print what float32 rows and the export come to, and the difference.")
def command(
    model: str,
    out: str,
    export_kind: Any,
    files: Any,
    rows: Any,
    onnx: Any,
    data: tuple[str, ...],
    kind: str,
) -> None:
    """Export the model that `heterps train --out MODEL` or session.save(MODEL) wrote to the folder OUT."""
    dataset = opened(data, kind, SavedModel.read(Path(model)).form) if data else None
    folder = export_model(model, out, kind=export_kind, format=files, rows=rows, onnx=onnx)
    click.echo(_summary(folder, Export.read(folder)))
    if dataset is None:
        return
    table = Table()
    for name in ("metric", "model", "export", "difference"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    for name, (exact, found) in loss_of_encoding(model, folder, dataset).items():
        table.add_row(name, f"{exact:.5f}", f"{found:.5f}", f"{found - exact:+.5f}")
    Screen().print(table)


def _summary(folder: Path, export: Export) -> str:
    rows = sum(file.rows for file in export.files if file.group not in (DENSE, ONNX) and "/deleted" not in file.group)
    onnx = "dense.onnx" if export.files_of(ONNX) else f"no ONNX ({export.onnx})"
    follows = f" on {export.follows.name}" if export.follows else ""
    return (
        f"{folder}: {export.kind}{follows}, {rows:,} rows of {export.encoding} as {export.format}, {onnx}, "
        f"{export.size:,} bytes"
    )
