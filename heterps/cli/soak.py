"""``heterps soak``: train while workers are killed, frozen, cut off and replaced, and count."""

from __future__ import annotations

import os
import sys

import click

from heterps.errors import RunError
from heterps.writing import check_target

__all__ = ["command"]

# A frozen worker is to be given up within seconds; one that was killed comes back, and may be the last of its role.
_PATIENCE = {"DASK_HETERPS__TIMEOUTS__CALL": "15s", "DASK_HETERPS__TIMEOUTS__WORKERS": "2m"}

_EPILOG = """\b
Examples:
  heterps soak --minutes 10                              backups, Async
  heterps soak --minutes 10 --mode sync --replicas 1     returns to cuts
  heterps soak --each --faults "kill, term server"       each once, nothing else
"""


@click.command(short_help="Kill, freeze, cut off and replace workers of a training, and count.", epilog=_EPILOG)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, help="How long.")
@click.option("--mode", type=click.Choice(["sync", "async"]), default="async", show_default=True, help="As for train.")
@click.option("--replicas", type=click.IntRange(1, 2), default=2, show_default=True, help="Copies of each shard host.")
@click.option("--servers", type=click.IntRange(2), default=3, show_default=True, help="Server workers.")
@click.option("--io", type=click.IntRange(2), default=3, show_default=True, help="Io workers.")
@click.option("--faults", default="", help="Which, such as 'kill, drop server'; by default all.")
@click.option("--each", is_flag=True, help="Each once, in order, instead of at random.")
@click.option("--bits", is_flag=True, help="Sync: also compare tables with a run in one process, to the bit.")
@click.option(
    "--network/--no-network", default=None, help="A link for each worker, to cut. Default: where root allows."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of what happens when.")
@click.option("--log", default="soak.jsonl", show_default=True, help="Results are added to this file.")
@click.option("--logs", default="logs", show_default=True, help="Folder for one log file per process.")
def command(
    minutes: float, mode: str, replicas: int, servers: int, io: int, faults: str, each: bool, bits: bool,
    network: bool | None, seed: int, log: str, logs: str,
) -> None:  # fmt: skip
    """Start a cluster on this machine, train a model whose exact result can be counted, hit workers at random.

    Prints for each kind of fault how often it happened, for how long no batch was applied and what throughput it cost.
    Ends with exit code 1 if a batch was lost or counted twice.
    """
    # Here, so that `heterps --help` need not import Dask.
    from heterps.soak.starting import Soak, start_soak
    from heterps.soak.victims import faults_of

    check_target(log)
    if bits and mode != "sync":
        raise RunError("bits are the same in Sync only: give --mode sync")
    faults_of(faults, network is not False)  # a misspelt one is told before anything starts
    os.environ.update({**_PATIENCE, **os.environ})
    soak = Soak(minutes, mode, replicas, servers, io, faults, each, bits, "", seed, log=os.path.abspath(log), logs=logs)
    sys.exit(start_soak(soak, network, click.echo))
