"""``heterps graph``: what a model is made of and where it splits."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.text import Text

from heterps.cli._models import load_graph, parse_settings
from heterps.graph import Graph, Op
from heterps.screen import Screen, listed
from heterps.stages import Partition, layers_of, partition
from heterps.stages.draw import draw
from heterps.writing import check_target, write_whole

__all__ = ["command"]


@click.command(short_help="Show ops, layers, reasons and bytes of a model.")
@click.argument("target", metavar="FILE[:FUNCTION]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Keyword argument of the function.")
@click.option(
    "--batch-size", type=click.IntRange(1), default=4096, show_default=True, help="Rows per batch, for costs and bytes."
)
@click.option(
    "--unique-fraction",
    type=click.FloatRange(0, 1),
    default=0.4,
    show_default=True,
    help="Distinct ids per id of a batch.",
)
@click.option("--svg", type=click.Path(dir_okay=False), help="Draw the split graph to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the graph as JSON.")
def command(
    target: str, settings: tuple[str, ...], batch_size: int, unique_fraction: float, svg: str | None, as_json: bool
) -> None:
    r"""Show what a model is made of: ops, Layers with their labels and reasons, and the split that labels alone give.

    \b
    Examples:
      heterps graph wide_deep
      heterps graph dlrm --set dim=32 --svg dlrm.svg
    """
    if svg:
        check_target(svg)
    graph = load_graph(target, parse_settings(settings))
    if as_json:
        click.echo(json.dumps(graph.to_json(), indent=1))
        return
    pieces = layers_of(graph, batch_size=batch_size, unique_fraction=unique_fraction)
    split = partition(pieces)
    console = Screen()
    _print_ops(console, graph)
    _print_layers(console, split)
    _print_parts(console, split)
    if svg:
        write_whole(svg, draw(split, title=Path(target.partition(":")[0]).stem))
        console.print(f"drawn to {svg}")


def _print_ops(console: Screen, graph: Graph) -> None:
    headings = ("op", "kind", "reads", "yields", "parameters")
    rows = [(op.name, op.kind, listed(op.inputs), str(op.type), _params(graph, op)) for op in graph]
    console.table(f"{len(graph)} ops, loss {graph.loss!r}", headings, rows)


def _params(graph: Graph, op: Op) -> str:
    if op.kind == "lookup":
        return f"table {op.attrs['table']} of {op.attrs['dim']}"
    return ", ".join(f"{p.name} {'x'.join(map(str, p.shape))}" for p in graph.params(op))


def _print_layers(console: Screen, split: Partition) -> None:
    pieces = split.layers
    headings = ("layer", "bound", "reason", "ops", "MFLOP", "cut before, KB")
    rows = []
    for i, layer in enumerate(pieces.layers):
        cut = f"{pieces.cut_bytes(i) / 1e3:,.0f}" if i else ""
        flops = f"{layer.cost.flops / 1e6:,.1f}"
        rows.append((layer.name, layer.bound.value, layer.reason, listed(layer.ops), flops, cut))
    title = f"{len(pieces.layers)} layers, per batch of {pieces.batch_size}"
    console.table(title, headings, rows, right=headings[4:])


def _print_parts(console: Screen, split: Partition) -> None:
    for part in split.parts:
        console.print(Text(part.side, "bold"), f": {listed(part.layers)}", sep="")
    pieces = split.layers
    per_sample = split.crossing_bytes / pieces.batch_size
    console.print(
        f"{split.crossing_bytes / 1e3:,.0f} KB cross per batch, {per_sample:,.0f} B a sample, both directions"
    )
