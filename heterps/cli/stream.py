"""``heterps stream``: train day after day on what arrives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from heterps.cli._data import Said, opened_as, parse_names, schema_options
from heterps.cli._device import device_options
from heterps.cli._plans import plan_of
from heterps.cli._rules import parse_rule
from heterps.cli._stopping import deferred
from heterps.data import READERS, DataForm
from heterps.errors import DataError
from heterps.launching import launch
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.screen import Screen
from heterps.streaming import AppendedFiles, FolderSource, RedisStream, StreamSource, stream
from heterps.streaming.ahead import Backoff
from heterps.streaming.entry import usual_quiet_s
from heterps.streaming.first_rows import Looking, first_files
from heterps.streaming.lists import parse_list
from heterps.tables import Snapshots
from heterps.writing import check_folder

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps stream wide_deep --data 'logs/{day}/{pass}/*.csv' --label clicked --out model/
  heterps stream wide_deep --data 'logs/{day}/{pass}' --done _SUCCESS --follow --delta-every 6 --out model/
  heterps stream dlrm --data 'day_{%Y%m%d%H}.tsv' --format criteo --days 20261101..20261107 --passes 00..23 --out model/
  heterps stream my_model.py --data 'logs/{day}.csv' --appended --header --follow --out model/
  heterps stream my_model.py --redis redis://127.0.0.1:6379/0 --key clicks --follow --out model/
  heterps stream deepfm --data 'logs/{day}/{pass}.csv' --metric auc,gauc:user --alarm 'auc<0.70' --out model/
"""
_SECONDS = click.FloatRange(0)


def _source_options(command: Any) -> Any:
    """Add the options that say where rows come from."""
    for option in reversed(
        (
            click.option("--data", metavar="PATTERN", help="Files or folders, with {day}, {pass}, {%Y%m%d%H}."),
            click.option("--appended", is_flag=True, help="The files grow: a pass is the lines added since the last."),
            click.option("--header", is_flag=True, help="With --appended: the first line of a file names its columns."),
            click.option("--redis", metavar="URL", help="A Redis server; a pass is the entries added since the last."),
            click.option("--key", metavar="NAME", help="With --redis: the stream's key."),
            click.option("--field", metavar="NAME", help="With --redis: entries hold a line of text in this field."),
            click.option("--done", metavar="NAME", help="A pass is complete once this file is beside its own."),
            click.option("--quiet", type=_SECONDS, help="Or once it did not change for so long [default: 0 or 10]."),
            click.option("--days", multiple=True, metavar="LIST", help="Days to wait for: 20261101..20261107, or a,b."),
            click.option("--passes", multiple=True, metavar="LIST", help="Passes of each day: 00..23, or a,b,c."),
            click.option("--give-up", type=_SECONDS, help="Wait so long for a pass of the lists [default: for ever]."),
            click.option("--least", type=click.IntRange(1), help="Bytes (--appended) or entries that make a pass."),
            click.option("--most", type=click.IntRange(1), help="Bytes (--appended) or entries of a pass at most."),
        )
    ):
        command = option(command)
    return command


@click.command(short_help="Train day after day on what arrives.", epilog=_EPILOG)
@click.argument("target", metavar="MODEL")
@_source_options
@click.option(
    "--format", "kind", default="auto", show_default=True, help=f"Of the rows: auto, {', '.join(sorted(READERS))}."
)
@schema_options
@click.option("--out", required=True, metavar="DIR", help="Folder of model and log; a stream in it goes on.")
@click.option("--start", metavar="DIR", help="A saved model to begin with.")
@click.option("--follow", is_flag=True, help="Go on waiting for more.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Keyword argument of the function.")
@click.option("--batch-size", type=click.IntRange(1), help="Rows per batch [default: 1024, or the plan's].")
@click.option("--mode", metavar="MODE", help="sync, async, or geo:K.")
@click.option(
    "--shuffle", type=click.Choice(["none", "local", "global"]), default="local", show_default=True, help="Of the rows."
)
@click.option("--sparse", metavar="RULE", help="Rule of the tables [default: ElementAdaGrad:lr=0.01].")
@click.option("--dense", metavar="RULE", help="Rule of the dense parameters [default: Adam:lr=0.001].")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Such as auc, copc, gauc:COLUMN, slot_copc.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Of all that is random.")
@click.option("--engine", default="auto", show_default=True, help="auto, dask, or inline (no Dask).")
@device_options
@click.option("--checkpoint-every", type=click.IntRange(1), default=1, show_default=True, help="Passes.")
@click.option("--delta-every", type=click.IntRange(1), help="Passes from one delta to the next [default: none].")
@click.option("--no-day-end", is_flag=True, help="No shrink and no base at the end of days.")
@click.option(
    "--late", type=click.Choice(["train", "skip"]), default="train", show_default=True, help="Passes of ended days."
)
@click.option(
    "--unreadable", type=click.Choice(["stop", "skip"]), default="stop", show_default=True, help="Passes that are bad."
)
@click.option("--alarm", "alarms", multiple=True, metavar="CONDITION", help="Such as auc<0.70 or 'total copc>1.2'.")
@click.option("--on-alarm", metavar="COMMAND", help="Run when one begins to hold; HETERPS_ALARM and others tell of it.")
@click.option("--export", is_flag=True, help="With each checkpoint, export what changed to DIR/export, for serving.")
@click.option("--dump", multiple=True, metavar="NAMES", help="Of each row before training, as predict --fetch.")
@click.option("--poll", nargs=2, type=_SECONDS, default=(1.0, 60.0), show_default=True, help="First, longest pause.")
def command(
    target: str,
    kind: str,
    said: Said,
    out: str,
    start: str | None,
    follow: bool,
    settings: tuple[str, ...],
    batch_size: int | None,
    mode: str | None,
    shuffle: str,
    sparse: str | None,
    dense: str | None,
    metrics: tuple[str, ...],
    seed: int,
    engine: str,
    device: str,
    emulate: bool,
    checkpoint_every: int,
    delta_every: int | None,
    no_day_end: bool,
    late: str,
    unreadable: str,
    alarms: tuple[str, ...],
    on_alarm: str | None,
    export: bool,
    dump: tuple[str, ...],
    poll: tuple[float, float],
    **where: Any,
) -> None:
    """Train on passes as they arrive: each is predicted first, then trained on, and written to a log.

    Ended anyhow and started again with the same words, it goes on where it was: no pass counts twice, none is lost.
    MODEL is as for `heterps train`.
    """
    check_folder(out)
    source, console = _source(where, follow), Screen(work_matters=True)
    with deferred(True, "pass") as stop:
        looking = Looking(Path(out), Backoff(*poll), follow, lambda: stop.asked, _teller(console))
        form = _known(out, start) or _first(looking, source, kind, said)
        if form is None:
            console.print("there is nothing to train on", highlight=False)
            stop.go_on()
            return
        rules = [parse_rule(text) if text else None for text in (sparse, dense)]
        options: dict[str, Any] = {"engine": engine, "mode": mode, "seed": seed, "device": device, "emulate": emulate}
        plan = plan_of(target, settings, batch_size, form.fields)
        with launch(plan, sparse=rules[0], dense=rules[1], **options) as session:
            session.form = form
            for report in stream(
                session,
                source,
                out,
                follow=follow,
                format=kind,
                shuffle=shuffle,
                metrics=parse_names(metrics) or None,
                checkpoint_every=checkpoint_every,
                delta_every=delta_every,
                end_days=not no_day_end,
                late=late,
                unreadable=unreadable,
                alarms=alarms,
                on_alarm=on_alarm,
                export=export,
                dump=parse_names(dump),
                start=start,
                poll_s=poll,
                stop=lambda: stop.asked,
                on_wait=_teller(console),
            ):
                console.print(str(report), highlight=False, soft_wrap=True)
    stop.go_on()


def _teller(console: Screen) -> Callable[[str], None]:
    told = [""]

    def tell(awaited: str) -> None:
        if awaited != told[0]:
            console.print(f"waiting for {awaited}", highlight=False, soft_wrap=True)
        told[0] = awaited

    return tell


def _source(where: dict[str, Any], follow: bool) -> StreamSource:
    """Return what the options name; options of another source are refused."""
    kind = "redis" if where["redis"] else "appended" if where["appended"] else "data"
    taken = {
        "data": ("data", "done", "quiet", "days", "passes", "give_up"),
        "appended": ("data", "appended", "header", "least", "most"),
        "redis": ("redis", "key", "field", "least", "most"),
    }[kind]
    for name, value in where.items():
        if value and name not in taken:
            raise DataError(f"--{name.replace('_', '-')} cannot be used with --{kind}")
    if kind == "redis":
        if not where["key"]:
            raise DataError("--redis needs the key of a stream: --key NAME")
        sizes = {name: where[name] for name in ("least", "most") if where[name]}
        return RedisStream(where["redis"], where["key"], field=where["field"], **sizes)
    if not where["data"]:
        raise DataError("nothing says where rows come from: --data PATTERN, or --redis URL --key NAME")
    if kind == "appended":
        sizes = {f"{name}_bytes": where[name] for name in ("least", "most") if where[name]}
        return AppendedFiles(where["data"], header=where["header"], **sizes)
    if where["days"] and follow:
        raise DataError("--days says when to end, --follow never to: give one of them")
    return FolderSource(
        where["data"],
        done=where["done"],
        quiet_s=where["quiet"] if where["quiet"] is not None else usual_quiet_s(follow and not where["done"]),
        days=parse_list(where["days"]) or None,
        passes=parse_list(where["passes"]) or None,
        give_up_s=where["give_up"],
    )


def _known(out: str, start: str | None) -> DataForm | None:
    """Return how rows become batches, where the model of a stream that goes on says so, or the one to begin with."""
    if Snapshots(Path(out) / "checkpoint").generations():
        return SavedModel.read(Path(out)).form or DataForm()
    return SavedModel.read(Path(start)).form or DataForm() if start else None


def _first(looking: Looking, source: StreamSource, kind: str, said: Said) -> DataForm | None:
    """Return what the first pass suggests; None where there is none."""
    files = first_files(source, looking)
    return DataForm.of(opened_as(files, kind, said)) if files else None
