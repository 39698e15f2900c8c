"""``heterps plan``: what to rent and what to run where; ``heterps plan diff`` compares two plans."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.table import Table

from heterps.cli._commands import check_commands, commands_text
from heterps.cli._data import opened, sample_options
from heterps.cli._models import load_graph, parse_settings
from heterps.cli._play import parse_run, play_request
from heterps.cli._storage import parse_storage, storage_option
from heterps.cli._ways import parameters_option, parse_ways
from heterps.data import Dataset
from heterps.errors import PlanError
from heterps.graph import Graph
from heterps.hardware import Hardware
from heterps.planner import FixedRate, Goal, MaxThroughput, MinCost, Plan, Profile, Request, compare, diff, frontier
from heterps.planner.costs.instance import is_instance, read_instance
from heterps.planner.costs.sample import Sample, sample_dataset
from heterps.planner.costs.steady import steady_play
from heterps.planner.planner import BATCH_SIZES, SECONDS, solve
from heterps.planner.show.explain import Explanation, explain
from heterps.planner.show.figures import (
    bytes_text,
    money_text,
    parse_count,
    percent_text,
    ranges_text,
    seconds_text,
)
from heterps.planner.show.html import report_html
from heterps.planner.show.job import job_text, parse_batch_sizes, parse_duration, parse_percent
from heterps.planner.show.played import played_text
from heterps.planner.show.text_report import render
from heterps.planner.solve.effort import Deadline
from heterps.planner.solve.max_load import LoadPlan, least_load
from heterps.planner.solve.solvers import solver
from heterps.planner.tiers import with_storage
from heterps.protocol.words.modes import Async, mode_from_text
from heterps.runtime.batch.columns import check_columns
from heterps.screen import Screen
from heterps.writing import check_target, write_whole

__all__ = ["command"]

_PRINTED = {"as_json", "playing", "play_with", "explaining"}
_OF_ONE_PLAN = _PRINTED | {"commands", "hosts", "certs", "out", "html", "solver_name", "mode"}


class _FileOrSubcommand(click.Group):
    """``plan FILE`` plans; a first word that is no subcommand is a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of ``make``, before and behind the file, unless a subcommand comes first."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["make", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] FILE[:FUNCTION] | diff PLAN PLAN")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options are those of ``plan FILE``."""
        click.Command.format_options(self.commands["make"], ctx, formatter)


class _Count(click.ParamType[float]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            count = parse_count(value) if isinstance(value, str) else float(value)
        except PlanError as error:
            self.fail(str(error), param, ctx)
        if not count > 0:
            self.fail(f"{value} is not a number above 0", param, ctx)
        return count


class _BatchSizes(click.ParamType[tuple[int, ...]]):
    name = "rows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            return parse_batch_sizes(value)
        except PlanError as error:
            self.fail(str(error), param, ctx)


class _Duration(click.ParamType[float]):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(value)
        except PlanError as error:
            self.fail(str(error), param, ctx)


class _Percent(click.ParamType[float]):
    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_percent(value)
        except PlanError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=_FileOrSubcommand, invoke_without_command=False, short_help="Decide what to rent and what runs where.")
def command() -> None:
    r"""Decide which layers run on which pool, with how many workers, and prove it.

    \b
    Examples:
      heterps plan wide_deep                                             on this machine
      heterps plan wide_deep --data train.tsv --out plan.json --commands   and how to start it
    What to rent (hw.toml: what there is, at which price; docs/planner.md shows one):
      heterps plan wide_deep --hardware hw.toml --rows-per-second 500k   cheapest for this speed
      heterps plan wide_deep --hardware hw.toml --arrival-rate 20k       cheapest an hour, for a stream
      heterps plan ctrdnn --hardware hw.toml --budget 40                 fastest for this price an hour
      heterps plan ctrdnn --hardware hw.toml --rows 4e9 --deadline 6h --budget 200 --head-room 20%
      heterps plan ctrdnn --hardware hw.toml --budget 40 --batch-size 256..8192 --replicas 2
    Looking closer:
      heterps plan ctrdnn --hardware hw.toml --rows-per-second 2M --html report.html --explain
      heterps plan ctrdnn --hardware hw.toml --budget 40 --compare       other ways to plan
      heterps plan wide_deep --mode sync --play-with cuts=60s --play-with slow=2
      heterps plan dlrm --hardware hw.toml --rows-per-second 200k --pin 'top*=gpu' --out plan.json
      heterps plan diff a.json b.json
      heterps plan instance.json --objective max-load                    a public placement instance
    """


@command.command("make", short_help="Plan a model (the word can be left out).")
@click.argument("target", metavar="FILE[:FUNCTION]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Keyword argument of the function.")
@click.option("--hardware", type=click.Path(dir_okay=False), help="TOML file of pools; default: this machine.")
@click.option(
    "--catalogue", type=click.Path(dir_okay=False), help="TOML file of devices and products that --hardware may name."
)
@click.option("--rows-per-second", type=_Count(), help="Least price per row with at least this throughput.")
@click.option("--arrival-rate", type=_Count(), help="Least price per hour for rows that arrive at this rate.")
@click.option("--budget", type=_Count(), help="Most throughput for this price per hour; with --deadline, for the job.")
@click.option("--batch-size", type=_BatchSizes(), metavar="N|N..M", help="Rows per batch, or a range to choose from.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=SECONDS, show_default=True, help="Time limit."
)
@click.option("--deadline", type=_Duration(), metavar="TIME", help="With --rows: time for all of them (6h, 90m).")
@click.option(
    "--head-room",
    type=_Percent(),
    default="0%",
    metavar="PERCENT",
    help="Capacity to keep free everywhere, such as 20%.",
)
@click.option("--profile", "profile_path", type=click.Path(dir_okay=False), help="Rates from `heterps profile`.")
@sample_options("Sampled: distinct ids of a batch, growth of the tables.")
@click.option("--rows", type=_Count(), help="Rows to train on: the size of the tables, the job's time and price.")
@click.option("--epochs", type=click.IntRange(1), default=1, help="How often the rows are trained on.")
@click.option("--pin", "pins", multiple=True, metavar="OP=POOL", help="Place an op (a pattern) on a pool, cpu or gpu.")
@storage_option
@parameters_option
@click.option("--mode", metavar="MODE", help="How workers keep in step, as for `heterps train` [default: async].")
@click.option("--stale", type=click.IntRange(1), metavar="K", help="Tables may travel by geo:K where that is cheaper.")
@click.option("--replicas", type=click.IntRange(1, 2), default=1, show_default=True, help="Copies of each shard host.")
@click.option("--solver", "solver_name", default="exact", show_default=True, help="Registered solver.")
@click.option("--compare", "comparing", is_flag=True, help="One row per solver: cost, gap, time.")
@click.option("--explain", "explaining", is_flag=True, help="Each layer on each pool, each cut, each move.")
@click.option("--objective", type=click.Choice(["max-load"]), help="FILE is a public placement instance (JSON).")
@click.option("--play", "playing", is_flag=True, help="Play the plan batch by batch in simulated time.")
@click.option(
    "--play-with", multiple=True, metavar="NAME=VALUE", help="Play splits=8, batches=40, passes=2, cuts=60s, slow=3."
)
@click.option("--commands", is_flag=True, help="Print only the commands that start what the plan says (with --out).")
@click.option("--hosts", help="With --commands: these machines, as for `heterps launch --hosts`.")
@click.option("--certs", help="With --hosts: folder of the certificates, made where there are none.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write the report as one self-contained page.")
@click.option("--out", type=click.Path(dir_okay=False), help="Save the plan: `heterps train PLAN.json` runs it.")
def make(
    target: str, settings: tuple[str, ...], hardware: str | None, catalogue: str | None, rows_per_second: float | None,
    arrival_rate: float | None, budget: float | None, batch_size: tuple[int, ...] | None, seconds: float,
    deadline: float | None, head_room: float, profile_path: str | None, data: tuple[str, ...], kind: str,
    rows: float | None, epochs: int, pins: tuple[str, ...], storage: tuple[str, ...], parameters: tuple[str, ...],
    mode: str | None, stale: int | None, replicas: int, solver_name: str,
    comparing: bool, explaining: bool, objective: str | None, playing: bool, play_with: tuple[str, ...],
    commands: bool, hosts: str | None, certs: str | None, as_json: bool, html: str | None, out: str | None,
) -> None:  # fmt: skip
    """Plan a model and print the report."""
    if objective is not None:
        kept = {"target", "objective", "seconds", "as_json"}
        _refuse(_said() - kept, f"--objective {objective} reads a placement instance")
        _print_load(least_load(read_instance(target), deadline=Deadline(seconds)), as_json)
        return
    if is_instance(target):
        raise PlanError(f"{target} is a placement instance, not a model: plan it with --objective max-load")
    if comparing:
        _refuse(_said() & _OF_ONE_PLAN, "--compare prints a row for each solver, not one plan")
    if commands or as_json:
        beside = _PRINTED if commands else _PRINTED - {"as_json"}
        _refuse(_said() & beside, f"--{'commands' if commands else 'json'} prints nothing else")
    for target_file in filter(None, (out, html)):
        check_target(target_file)
    check_commands(commands, out, hosts, certs)
    run = parse_run(play_with)
    dataset = opened(data, kind) if data else None
    schema = None if dataset is None else dataset.schema
    graph = with_storage(load_graph(target, parse_settings(settings), schema), parse_storage(storage))
    request = Request(
        graph,
        _hardware(hardware, catalogue),
        _goal(rows_per_second, arrival_rate, budget, _trained(rows, epochs), deadline),
        batch_size or BATCH_SIZES,
        Profile.load(profile_path) if profile_path else Profile({}),
        _pins(pins),
        None if dataset is None else _sample(graph, dataset, max(batch_size) if batch_size else 4096),
        rows,
        solver_name,
        seconds,
        head_room,
        parse_ways(parameters),
        replicas,
        stale,
    )
    console = _console()
    if comparing:
        _print_comparison(console, request)
        return
    made = solve(request, None if mode in (None, Async.name) else mode_from_text(mode))
    job = job_text(made, _trained(rows, epochs), deadline, budget)
    if out:
        made.save(out)
    notes = explain(request) if explaining or html else None
    if html:
        costs = request.costs(made.batch_size)
        played = steady_play(made, costs, request.sample)[1]
        title = f"Plan for {Path(target).stem}"
        write_whole(html, report_html(made, costs.layers, frontier(request, made), notes, title, played, job))
    if commands:
        click.echo(commands_text(made, out, data, hosts, certs))
        return
    if as_json:
        click.echo(json.dumps(made.to_json(), indent=1))
        return
    console.print(render(made, job))
    if playing or play_with:
        console.print(played_text(made, play_request(request, made, run)))
    if explaining and notes is not None:
        _print_explanation(console, notes)


@command.command("diff", short_help="Show what changed between two saved plans.")
@click.argument("a", type=click.Path(dir_okay=False))
@click.argument("b", type=click.Path(dir_okay=False))
def diff_command(a: str, b: str) -> None:
    """Show what changed between two saved plans."""
    changes = diff(Plan.load(a), Plan.load(b))
    if not changes:
        click.echo("no difference")
        return
    table = Table()
    for heading in ("what", a, b):
        table.add_column(heading, overflow="fold")
    for change in changes:
        table.add_row(*change)
    _console().print(table)


def _said() -> set[str]:
    """Parameters that stand on the command line."""
    asked = click.get_current_context()
    return {name for name in asked.params if asked.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _refuse(senseless: set[str], why: str) -> None:
    """Refuse options that mean nothing beside another one.

    Raises
    ------
    PlanError
        With all of them.
    """
    names = [param.opts[0] for param in click.get_current_context().command.params if param.name in senseless]
    if names:
        raise PlanError(f"{why}: leave out {', '.join(names)}, which would mean nothing there")


def _print_load(found: LoadPlan, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(found) | {"gap": found.gap}, indent=1))
        return
    table = Table(title="Devices", title_justify="left")
    for heading in ("device", "ops", "load", "ids"):
        table.add_column(heading, justify="right" if heading in ("ops", "load") else "left", overflow="fold")
    for device in found.devices:
        table.add_row(device.kind, str(len(device.ids)), f"{device.load:.6g}", ranges_text(device.ids))
    console = _console()
    console.print(table)
    proof = (
        "proved optimal"
        if found.complete or found.gap < 1e-8
        else f"gap {percent_text(found.gap)}, bound {found.bound:.6g}"
    )
    over = f"over {'all ' if found.complete else ''}{found.cuts:,} cuts"
    console.print(f"Fullest device: {found.load:.6g} ({proof}, {over}, {seconds_text(found.seconds)})")


def _console() -> Screen:
    """A console that does not squeeze tables where nobody looks at it."""
    return Screen(width=None if sys.stdout.isatty() else 130)


def _hardware(path: str | None, catalogue: str | None) -> Hardware:
    if path is None and catalogue is not None:
        raise PlanError("--catalogue has the devices that the pools of --hardware name: give --hardware too")
    return Hardware.from_toml(path, catalogue) if path else Hardware.local()


def _goal(
    rows_per_second: float | None,
    arrival_rate: float | None,
    budget: float | None,
    rows: float | None,
    deadline: float | None,
) -> Goal:
    if deadline is not None:
        if rows is None:
            raise PlanError("--deadline is the time for --rows: say how many rows there are")
        if rows_per_second is not None or arrival_rate is not None:
            raise PlanError(
                "--deadline with --rows gives the throughput: leave --rows-per-second and --arrival-rate out"
            )
        return MinCost.of_job(rows, deadline)
    given = [value for value in (rows_per_second, arrival_rate, budget) if value is not None]
    if len(given) > 1:
        raise PlanError("--rows-per-second, --arrival-rate and --budget are different goals: give one of them")
    if rows_per_second is not None:
        return MinCost(rows_per_second)
    if arrival_rate is not None:
        return FixedRate(arrival_rate)
    return MaxThroughput(math.inf if budget is None else budget)


def _trained(rows: float | None, epochs: int) -> float | None:
    """Rows of all epochs together."""
    if rows is None and epochs > 1:
        raise PlanError("--epochs is how often --rows are trained on: say how many rows there are")
    return None if rows is None else rows * epochs


def _pins(pairs: tuple[str, ...]) -> dict[str, str]:
    pins = {}
    for pair in pairs:
        name, sign, where = pair.rpartition("=")
        if not sign or not name or not where:
            raise PlanError(f"--pin takes OP=POOL, got {pair!r}")
        pins[name] = where
    return pins


def _sample(graph: Graph, dataset: Dataset, batch_size: int) -> Sample:
    check_columns(graph, dataset.schema)
    return sample_dataset(graph, dataset, batch_size=batch_size)


def _print_comparison(console: Screen, request: Request) -> None:
    table = Table(title=f"Solvers: {request.goal_text}", title_justify="left")
    headings = ("solver", "stages", "workers", "rows/s", "an hour", "$ / million rows", "gap", "time", "note")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("solver", "stages", "workers", "note") else "right")
    for name, made, reason in compare(request):
        if made is None or made.forecast is None or made.certificate is None:
            table.add_row(name, *[""] * 7, reason)
            continue
        workers = ", ".join(f"{units} {pool}" for pool, units in made.units.items())
        table.add_row(
            name,
            " | ".join("+".join(stage.workers) for stage in made.stages),
            workers,
            f"{made.forecast.rows_per_second:,.0f}",
            money_text(made.forecast.price_per_hour),
            f"{made.forecast.price_per_million_rows:.4g}",
            percent_text(made.certificate.gap) if solver(name).proves else "no bound",
            seconds_text(made.certificate.seconds),
            "",
        )
    console.print(table)


def _print_explanation(console: Screen, notes: Explanation) -> None:
    table = Table(title="Layers: a batch on one unit of each pool", title_justify="left")
    for heading in ("layer", "label", "chosen", "time by pool", *(["$ / million rows by pool"] * notes.is_priced)):
        table.add_column(heading, overflow="fold")
    for note in notes.layers:
        times = ", ".join(f"{pool} {seconds_text(s)}" for pool, s in note.seconds.items())
        prices = ", ".join(f"{pool} {price:.3g}" for pool, price in note.price.items())
        table.add_row(note.layer, note.reason, note.chosen, times, *([prices] * notes.is_priced))
    console.print(table)
    table = Table(title="Legal cuts", title_justify="left")
    for heading in ("cut before", "bytes a row", ""):
        table.add_column(heading, justify="right" if "bytes" in heading else "left")
    for cut in notes.cuts:
        table.add_row(cut.before, bytes_text(cut.bytes_per_row), "cut here" if cut.taken else "")
    console.print(table)
    for move in notes.moves:
        worth = (
            "not at this throughput"
            if move.ratio is None
            else f"{move.ratio:.3f} times the price at the same throughput"
        )
        console.print(f"instead {move.what}: {worth}")
