"""``heterps train``: a model file and data in, a trained model out."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from heterps.cli._data import Said, data_options, opened, opened_as, parse_names, schema_options
from heterps.cli._device import device_options
from heterps.cli._models import takes_setting
from heterps.cli._plans import plan_of
from heterps.cli._plateau import parse_plateau
from heterps.cli._rules import parse_rule
from heterps.cli._saving import kept_without_cut, save_trained
from heterps.cli._stopping import Stop, deferred
from heterps.cli._storage import parse_storage, storage_option
from heterps.cli._ways import parameters_option, parse_caches, parse_ways
from heterps.cli._weights import parse_class_weight
from heterps.data import DataForm, Dataset
from heterps.errors import DataError, LabelError
from heterps.graph import Graph
from heterps.habits import Dump
from heterps.launching import launch
from heterps.runtime.batch.cache_place import CACHE_PLACES
from heterps.runtime.report.meter import metered
from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.runtime.report.progress import Progress
from heterps.screen import Screen
from heterps.writing import check_folder, check_target

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps train wide_deep --data clicks.csv --label clicked --out model/
  heterps train deepfm --data clicks.parquet --categorical zip,hour --ignore id --set hidden=64,32
  heterps train wide_deep --data adult:train --valid adult:test --epochs 2 --out model/
  heterps train my_model.py:towers --data clicks.csv --schema clicks.toml
  heterps train dlrm --data 'day_*.tsv' --format criteo --mode sync
  heterps train word2vec --data pairs.parquet --mode geo:100 --sparse SGD:lr=0.1 --dense SGD:lr=0.1
  heterps train dlrm --data 'day_*.tsv' --cache-rows 50000 --staleness 16
  heterps train dlrm --data 'day_*.tsv' --checkpoint run/ --every-batches 10000
  heterps train dlrm --data 'day_*.tsv' --checkpoint run/ --resume run/
  heterps train deepfm --data clicks.csv --label clicked --class-weight balanced
  heterps train dlrm --data 'day_*.tsv' --profile --profile-svg profile.svg
  heterps train plan.json --data train/*.parquet --sparse RowWiseAdaGrad:lr=0.02
"""


@click.command(short_help="Train a model on files.", epilog=_EPILOG)
@click.argument("target", metavar="MODEL")
@data_options
@schema_options
@click.option("--valid", multiple=True, metavar="PATH", help="Evaluated after each pass.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Keyword argument of the function.")
@click.option("--batch-size", type=click.IntRange(1), help="Rows per batch [default: 1024, or the plan's].")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Passes over the data.")
@click.option(
    "--mode",
    metavar="MODE",
    help="sync, async, async:DEPTH:MERGE (MERGE batches a push), geo:K (rows of one's own, settled every K), cache:N.",
)
@click.option(
    "--cache-rows",
    "caches",
    multiple=True,
    metavar="[TABLE=]ROWS",
    help="Embedding cache: rows of each table, or of one, that a worker keeps; or bytes, such as 64MB.",
)
@click.option("--staleness", type=click.IntRange(0), help="With a cache: batches that rows may lack [default: 16].")
@click.option(
    "--cache-on",
    type=click.Choice(CACHE_PLACES),
    default="auto",
    show_default=True,
    help="Where a cache's rows are: in memory, or on the device that computes (auto: there if they can).",
)
@click.option("--local-rows", type=click.IntRange(1), help="Geo: rows of a table that a worker keeps [default: all].")
@click.option(
    "--wire",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="How rows and gradients travel between processes: float16 is half the bytes.",
)
@click.option(
    "--shuffle", type=click.Choice(["none", "local", "global"]), default="local", show_default=True, help="Of the rows."
)
@click.option("--sparse", metavar="RULE", help="Rule of the tables [default: ElementAdaGrad:lr=0.01].")
@click.option("--dense", metavar="RULE", help="Rule of the dense parameters [default: Adam:lr=0.001].")
@click.option(
    "--reduce-on-plateau",
    metavar="METRIC[:OPTIONS]",
    help="With --valid: halve learning rates after a pass without a better value; auc:factor=0.5,patience=2.",
)
@click.option("--clip-norm", type=float, help="Largest norm of a parameter's gradient, and of a row's.")
@click.option("--clip-value", type=float, help="Largest absolute value of an element of a gradient.")
@click.option(
    "--class-weight",
    multiple=True,
    metavar="CLASS=WEIGHT",
    help="What rows of a label weigh in the loss, such as 1=10; or balanced: all labels the same.",
)
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Measured while training [default: auc].")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Of first values, shuffling and dropout.",
)
@click.option("--name", metavar="NAME", help="What heterps watch calls this training [default: the model's].")
@click.option("--engine", default="auto", show_default=True, help="auto, dask, or inline (no Dask).")
@device_options
@click.option(
    "--dense-on",
    type=click.Choice(("hosts", "stage")),
    default="hosts",
    show_default=True,
    help="Where dense parameters are: on shard hosts, or on the first compute stage's device.",
)
@storage_option
@parameters_option
@click.option("--out", metavar="DIR", help="Save the trained model to this folder.")
@click.option("--checkpoint", metavar="DIR", help="Keep cuts of the run here, to go on from if it is lost.")
@click.option("--every-batches", type=click.IntRange(1), help="Make a cut so often, besides the one at the end.")
@click.option(
    "--memory",
    metavar="BYTES",
    help="What the tables of one shard host may take, such as 8GiB; new ids beyond are refused.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 2),
    help="Copies of each shard host; 2: one that is lost costs nothing [default: 1, or the plan's].",
)
@click.option(
    "--resume", metavar="DIR", help="Go on from the newest cut in this folder, with the same data and options."
)
@click.option("--force", is_flag=True, help="Resume although data, shuffling, rules or metrics have changed.")
@click.option("--allow-empty", is_flag=True, help="Accept data without a single usable row.")
@click.option("--dump", metavar="DIR", help="Write tensors (--fetch) and parameters to this folder with every report.")
@click.option("--fetch", multiple=True, metavar="NAME", help="With --dump: prediction, outputs or ops; or as a,b.")
@click.option("--dump-parameters", multiple=True, metavar="NAME", help="With --dump: such as fc*; several, or as a,b.")
@click.option("--profile", is_flag=True, help="Show where the time went, by pool and phase.")
@click.option("--profile-svg", type=click.Path(dir_okay=False), metavar="FILE", help="Draw the same to this file.")
def command(
    target: str,
    data: tuple[str, ...],
    kind: str,
    said: Said,
    valid: tuple[str, ...],
    settings: tuple[str, ...],
    batch_size: int | None,
    epochs: int,
    mode: str | None,
    caches: tuple[str, ...],
    staleness: int | None,
    cache_on: str,
    local_rows: int | None,
    wire: str,
    shuffle: Any,
    sparse: str | None,
    dense: str | None,
    reduce_on_plateau: str | None,
    clip_norm: float | None,
    clip_value: float | None,
    class_weight: tuple[str, ...],
    metrics: tuple[str, ...],
    seed: int,
    name: str | None,
    engine: str,
    device: str,
    emulate: bool,
    dense_on: str,
    storage: tuple[str, ...],
    parameters: tuple[str, ...],
    out: str | None,
    checkpoint: str | None,
    every_batches: int | None,
    memory: str | None,
    replicas: int | None,
    resume: str | None,
    force: bool,
    allow_empty: bool,
    dump: str | None,
    fetch: tuple[str, ...],
    dump_parameters: tuple[str, ...],
    profile: bool,
    profile_svg: str | None,
) -> None:
    """Train a model.

    MODEL is the name of a built-in one (wide_deep, deepfm, dlrm, ...), FILE[:FUNCTION] with a function that returns a
    graph, or a graph or plan saved as JSON. Arguments called slots, dense and weighted follow from the data.
    """
    for folder in filter(None, (out, checkpoint)):
        check_folder(folder)
    if profile_svg:
        check_target(profile_svg)
    ways, kept_in = parse_ways(parameters) or None, parse_storage(storage) or None
    console = Screen(work_matters=bool(out or checkpoint))
    training = opened_as(data, kind, said)
    for note in training.study.notes if training.study else ():
        console.print(note, highlight=False, soft_wrap=True)
    of_classes, slower = parse_class_weight(class_weight), parse_plateau(reduce_on_plateau)
    plan = plan_of(target, settings, batch_size, training.schema, weight=of_classes is not None)
    validation = opened(valid, kind, DataForm.of(training)) if valid else None
    rules = [parse_rule(text) if text else None for text in (sparse, dense)]
    with launch(
        plan,
        engine=engine,
        mode=mode,
        local_rows=local_rows,
        wire=wire,
        cache_rows=parse_caches(caches) or None,
        staleness=staleness,
        cache_on=cache_on,
        sparse=rules[0],
        dense=rules[1],
        clip_norm=clip_norm,
        clip_value=clip_value,
        seed=seed,
        metrics=parse_names(metrics) or None,
        checkpoint=checkpoint,
        every_batches=every_batches,
        resume=resume,
        force=force,
        memory=memory,
        replicas=replicas,
        device=device,
        emulate=emulate,
        dense_on=dense_on,
        storage=kept_in,
        parameters=ways,
        name=name or Path(target.partition(":")[0]).stem,
    ) as session:
        told = _dump(dump, parse_names(fetch), parse_names(dump_parameters))
        told["callbacks"] = [*told.get("callbacks", ()), *slower]
        with _advised(target, plan.graph, training):
            told |= {"class_weight": of_classes, "allow_empty": allow_empty}
            reports: Any = session.train(training.shuffle(shuffle), epochs, validation, **told)
        with deferred(bool(out)) as stop, kept_without_cut(session, out):
            last = _followed(reports, console, stop)
        if out:
            save_trained(session, out)
            console.print(_saved(out, last, stop), highlight=False, soft_wrap=True)
        stop.go_on()
    if profile:
        _print_profile(console, last.profile)
    if profile_svg:
        last.profile.save(profile_svg, f"{Path(target.partition(':')[0]).stem}, {last.samples:,} samples")
        console.print(f"drawn to {profile_svg}", highlight=False)


def _followed(reports: Generator[Progress, None, None], console: Screen, stop: Stop) -> Progress:
    """Train to the end, or to the first report after a signal: whole batches are in the tables then."""
    with closing(reports):
        for progress in metered(reports, console):
            last = progress
            if stop.asked:
                break
    return last


def _saved(out: str, last: Progress, stop: Stop) -> str:
    if not stop.asked or last.done:
        return f"saved to {out}"
    return f"saved to {out} what was trained: {last.samples:,} samples, in epoch {last.epoch} of {last.epochs}"


def _dump(folder: str | None, fetch: tuple[str, ...], parameters: tuple[str, ...]) -> dict[str, Any]:
    """Return what ``session.train`` is to be told for a dump."""
    if folder is None:
        if fetch or parameters:
            raise DataError("--fetch and --dump-parameters say what is dumped: name a folder for it, --dump DIR")
        return {}
    if not fetch and not parameters:
        raise DataError("--dump: say what, --fetch prediction or --dump-parameters 'fc*'")
    return {"fetch": fetch, "callbacks": [Dump(folder, parameters)]}


@contextmanager
def _advised(target: str, graph: Graph, data: Dataset) -> Iterator[None]:
    """Columns that do not fit are most often a model whose arguments do not: say how to change them."""
    try:
        yield
    except LabelError as error:
        raise LabelError(f"{error}\n{_other_loss(target, graph)}") from error
    except DataError as error:
        raise DataError(f"{error}\n{_remedy(graph, data)}") from error


def _other_loss(target: str, graph: Graph) -> str:
    if graph[graph.loss].kind == "logloss" and takes_setting(target, "loss"):
        return "For amounts and ratings take another loss: --set loss=mse. For clicks name their column with --label"
    return "Name another column with --label, or change the model's arguments with --set NAME=VALUE"


def _remedy(graph: Graph, data: Dataset) -> str:
    kinds = {column.kind for column in data.schema}
    if data.study and data.study.columns and not kinds & {"label"}:
        return "The data has no column that is called as labels are: name it with --label"
    wants_ids = any(op.type.dtype == "uint64" for op in graph.inputs)
    if data.study and data.study.columns and wants_ids and not kinds & {"sparse", "ragged"}:
        return "No column was taken for a category: name some with --categorical, or train the model dnn"
    return "The model's arguments can be changed with --set NAME=VALUE"


def _print_profile(console: Screen, profile: PhaseProfile) -> None:
    """Seconds of threads by phase and pool, and the share of all threads' time."""
    had = sum(profile.capacity_s.values()) or 1.0
    table = Table(title=f"{profile.elapsed_s:.1f} s, {had:.1f} s over all threads", title_justify="left")
    table.add_column("phase")
    for name in (*profile.pools, "share"):
        table.add_column(name, justify="right")
    for phase, seconds in profile.phases.items():
        by_pool = (f"{pool[phase]:.2f}" if pool.get(phase) else "" for pool in profile.pools.values())
        table.add_row(phase, *by_pool, f"{100 * seconds / had:.1f} %")
    table.add_section()
    table.add_row("busy", *(f"{100 * share:.0f} %" for share in profile.busy.values()), "")
    console.print(table)
    for line in (*profile.computing, *profile.caching):
        console.print(line, highlight=False)
