"""``heterps inspect``: what a snapshot holds, or what differs between two."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from heterps.runtime.batch.columns import describe as describe_column
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.runtime.cuts.saving import snapshot_folder
from heterps.screen import Screen
from heterps.tables.snapshots.inspection import Comparison, TableReport, compare, describe
from heterps.tables.snapshots.load import verify as verify_files

__all__ = ["command"]

_BLOCKS = " ▁▂▃▄▅▆▇█"


@click.command("inspect")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, help="How many ids to list.")
@click.option("--verify", is_flag=True, help="Check the hash of every file first.")
def command(paths: tuple[Path, ...], top: int, verify: bool) -> None:
    r"""Show what a saved model or snapshot holds, or compare two by id.

    PATH is what `heterps train --out` or session.save wrote, a folder of snapshots (the newest is taken), or one.

    \b
    Examples:
      heterps inspect out/wide_deep                  data, tables, rows, bytes, top ids, norms
      heterps inspect out/wide_deep --verify         check all hashes too
      heterps inspect out/run/00000001 out/run       what changed since generation 1
    """
    console = Screen()
    if len(paths) > 2:
        raise click.UsageError(f"inspect takes one snapshot or two, got {len(paths)}")
    models, paths = paths, tuple(map(snapshot_folder, paths))
    if verify:
        for path in paths:
            console.print(f"{len(verify_files(path).files)} files of {path} are as they were written")
    if len(paths) == 1:
        if SavedModel.is_in(models[0]):
            _show_model(console, SavedModel.read(models[0]))
        _show(console, paths[0], top)
    else:
        _show_comparison(console, compare(*paths, top=top))


def _show_model(console: Screen, model: SavedModel) -> None:
    loss = model.graph[model.graph.loss]
    rules = f"tables {model.sparse}, dense parameters {model.dense}"
    console.print(f"a model of {len(model.graph)} ops with {loss.kind} for a loss", soft_wrap=True, highlight=False)
    console.print(f"rules: {rules}", soft_wrap=True, highlight=False)
    for column in model.form.fields if model.form else ():
        made = f" of {', '.join(column.labels)}" if column.of else ""
        console.print(f"column {describe_column(column)}{made}", soft_wrap=True, highlight=False)


def _show(console: Screen, path: Path, top: int) -> None:
    folder, manifest, reports = describe(path, top=top)
    shapes = ", ".join(f"{spec.name}{list(spec.shape)}" for spec in manifest.dense) or "none"
    console.print(f"{folder}: {manifest.kind} after {manifest.version} steps, seed {manifest.seed}", soft_wrap=True)
    console.print(f"dense parameters: {shapes}", soft_wrap=True, highlight=False)
    table = Table("table", "dim", "rule", "rows", "group bytes", "norms (least to largest)")
    for report in reports:
        table.add_row(*_line(report))
    console.print(table)
    for report in reports:
        _show_top(console, report)


def _line(report: TableReport) -> tuple[str, ...]:
    spec = report.table
    norms = f"{report.edges[0]:.3g} {_bars(report.counts)} {report.edges[-1]:.3g}"
    return spec.name, str(spec.dim), type(spec.rule).__name__, f"{report.rows:,}", f"{report.size:,}", norms


def _bars(counts: tuple[int, ...]) -> str:
    """Return a histogram one line high; any row shows."""
    most = max(counts) or 1
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // most)] for count in counts)


def _show_top(console: Screen, report: TableReport) -> None:
    if report.top:
        pairs = ", ".join(f"{id_} ({rank:.4g})" for id_, rank in report.top)
        console.print(f"{report.table.name}: top ids by {report.ranked_by}: {pairs}", soft_wrap=True, highlight=False)


def _show_comparison(console: Screen, comparisons: tuple[Comparison, ...]) -> None:
    table = Table("table", "added", "changed", "deleted", "unchanged", "largest change", "mean change")
    for c in comparisons:
        counts = (f"{n:,}" for n in (c.added, c.changed, c.deleted, c.unchanged))
        table.add_row(c.table, *counts, f"{c.largest:.4g}", f"{c.mean:.4g}")
    console.print(table)
    for c in comparisons:
        if c.top:
            pairs = ", ".join(f"{id_} ({change:.4g})" for id_, change in c.top)
            console.print(f"{c.table}: ids that changed most: {pairs}", soft_wrap=True, highlight=False)
