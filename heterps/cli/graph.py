"""``heterps graph``: what a model is made of and where it splits."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from heterps.cli._models import load_graph, parse_settings
from heterps.graph import Graph
from heterps.stages import Partition, layers_of, partition
from heterps.stages.draw import draw

__all__ = ["command"]


@click.command(short_help="Show ops, layers, reasons and bytes of a model.")
@click.argument("target", metavar="FILE[:FUNCTION]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Keyword argument of the function.")
@click.option("--batch-size", default=4096, show_default=True, help="Rows per batch, for costs and bytes.")
@click.option("--unique-fraction", default=0.4, show_default=True, help="Distinct ids per id of a batch.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Draw the split graph to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the graph as JSON.")
def command(
    target: str, settings: tuple[str, ...], batch_size: int, unique_fraction: float, svg: str | None, as_json: bool
) -> None:
    r"""Show what a model is made of: ops, Layers with their labels and reasons, and the split that labels alone give.

    \b
    Examples:
      heterps graph graphs/wide_deep.py
      heterps graph graphs/dlrm.py --set dim=32 --svg dlrm.svg
    """
    graph = load_graph(target, parse_settings(settings))
    if as_json:
        click.echo(json.dumps(graph.to_json(), indent=1))
        return
    pieces = layers_of(graph, batch_size=batch_size, unique_fraction=unique_fraction)
    split = partition(pieces)
    console = Console()
    _print_ops(console, graph)
    _print_layers(console, split)
    _print_parts(console, split)
    if svg:
        Path(svg).write_text(draw(split, title=Path(target.partition(":")[0]).stem))
        console.print(f"drawn to {svg}")


def _print_ops(console: Console, graph: Graph) -> None:
    table = Table(title=f"{len(graph)} ops, loss {graph.loss!r}", title_justify="left")
    for heading in ("op", "kind", "reads", "yields", "parameters"):
        table.add_column(heading)
    for op in graph:
        params = ", ".join(f"{p.name} {'x'.join(map(str, p.shape))}" for p in graph.params(op))
        if op.kind == "lookup":
            params = f"table {op.attrs['table']} of {op.attrs['dim']}"
        table.add_row(op.name, op.kind, ", ".join(op.inputs), str(op.type), params)
    console.print(table)


def _print_layers(console: Console, split: Partition) -> None:
    pieces = split.layers
    table = Table(title=f"{len(pieces.layers)} layers, per batch of {pieces.batch_size}", title_justify="left")
    for heading, justify in (("layer", "left"), ("bound", "left"), ("reason", "left"), ("ops", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("MFLOP", justify="right")
    table.add_column("cut before, KB", justify="right")
    for i, layer in enumerate(pieces.layers):
        cut = f"{pieces.cut_bytes(i) / 1e3:,.0f}" if i else ""
        flops = f"{layer.cost.flops / 1e6:,.1f}"
        table.add_row(layer.name, layer.bound.value, layer.reason, ", ".join(layer.ops), flops, cut)
    console.print(table)


def _print_parts(console: Console, split: Partition) -> None:
    for part in split.parts:
        console.print(f"[bold]{part.side}[/bold]: {', '.join(part.layers)}")
    pieces = split.layers
    per_sample = split.crossing_bytes / pieces.batch_size
    console.print(
        f"{split.crossing_bytes / 1e3:,.0f} KB cross per batch, {per_sample:,.0f} B a sample, both directions"
    )
