"""``heterps profile``: measure kernels, table access and calls, for plans that rest on facts."""

from __future__ import annotations

from dataclasses import replace

import click
from rich.table import Table

from heterps.cli._data import opened, sample_options
from heterps.cli._device import device_options
from heterps.cli._models import load_graph, parse_settings
from heterps.errors import PlanError
from heterps.hardware import Hardware, Pool
from heterps.planner.costs.profile import Line, Profile, Rates
from heterps.planner.show.figures import bytes_text, percent_text, seconds_text
from heterps.runtime.batch.columns import check_columns
from heterps.screen import Screen
from heterps.writing import check_target

__all__ = ["command"]


@click.command(short_help="Measure kernels, table access and calls on this machine.")
@click.argument("target", metavar="FILE[:FUNCTION]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Keyword argument of the function.")
@sample_options("Read, and ids taken from; without: Zipf ids, no reading.")
@click.option("--pool", default="cpu", show_default=True, help="Name of the pool that this machine stands for.")
@device_options
@click.option("--in-process", is_flag=True, help="Workers share one process, as in launch(plan) on one machine.")
@click.option("--add-to", type=click.Path(dir_okay=False), help="A profile to which the pool is added.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the profile to this file.")
def command(
    target: str,
    settings: tuple[str, ...],
    data: tuple[str, ...],
    kind: str,
    pool: str,
    device: str,
    emulate: bool,
    in_process: bool,
    add_to: str | None,
    out: str | None,
) -> None:
    r"""Measure what a model's layers, table access and calls take on a core or GPU of this machine (some 20 seconds).

    \b
    Examples:
      heterps profile wide_deep --out profile.json
      heterps profile wide_deep --data 'train-*.tsv' --out profile.json
      heterps profile wide_deep --pool gpu --device gpu:0 --add-to profile.json --out profile.json
      heterps plan wide_deep --profile profile.json
    """
    from heterps.runtime.measure.measuring import measure_profile

    if out:
        check_target(out)
    known = Profile({}) if add_to is None else Profile.load(add_to)
    if pool in known.pools:  # said before anything is measured
        raise PlanError(f"{add_to} has a pool {pool!r} already: choose another name with --pool")
    dataset = opened(data, kind) if data else None
    graph = load_graph(target, parse_settings(settings), None if dataset is None else dataset.schema)
    unit = _unit(device, emulate)
    if dataset is not None:
        check_columns(graph, dataset.schema)
    measured = measure_profile(
        graph, replace(unit, name=pool), dataset, sockets=not in_process, device=device, emulate=emulate
    )
    if out:
        replace(measured, pools={**known.pools, **measured.pools}).save(out)
    _print(Screen(), pool, measured)


def _unit(device: str, emulate: bool) -> Pool:
    """Return one unit of the pool: a GPU where one is asked for, else a core; what is timed replaces its figures."""
    here = Hardware.local()
    core = here.pool("cpu")
    if not device.startswith("gpu"):
        return core
    as_gpu = replace(core, emulated=emulate, device=replace(core.device, kind="gpu"))
    return next((pool for pool in here.pools if pool.kind == "gpu"), as_gpu)


def _print(console: Screen, pool: str, profile: Profile) -> None:
    rates = profile.pools[pool]
    table = Table(title=f"Pool {pool}: one unit, batches of {' and '.join(map(str, profile.batch_sizes))}")
    table.add_column("work")
    for heading in ("fixed", "per item", "item"):
        table.add_column(heading, justify="right")
    for name, line, item in _lines(rates):
        table.add_row(name, seconds_text(line.fixed_s), seconds_text(line.s_per_item), item)
    console.print(table)
    megabyte = seconds_text(rates.wire_s_per_byte * 1e6)
    console.print(f"a call takes {seconds_text(rates.call_s)} on either side, a megabyte {megabyte}")
    console.print(
        f"the engine takes {seconds_text(rates.batch_s)} a batch, a waiting worker {rates.idle_cores:.3f} cores"
    )
    console.print(f"one connection carries {bytes_text(rates.network_bytes_per_s)}/s")
    console.print(f"parallel part of the work of all cores: {percent_text(rates.compute_fraction)}")
    if profile.unique_fraction is not None:
        console.print(f"distinct ids in a batch: {percent_text(profile.unique_fraction)}")
    for note in profile.notes:
        console.print(note)


def _lines(rates: Rates) -> list[tuple[str, Line, str]]:
    named = [
        ("read", rates.read, "row"),
        ("de-duplicate", rates.dedupe, "id"),
        ("pull (shard host)", rates.pull, "unique row"),
        ("create (shard host)", Line(0.0, rates.create_s), "new row"),
        ("push (shard host)", rates.push, "unique row"),
        ("dense (shard host)", rates.dense, "parameter"),
    ]
    return named + [(f"layer {name}", line, "row") for name, line in rates.layers.items()]
