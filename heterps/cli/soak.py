"""``heterps soak``: train while workers are killed and frozen, and count."""

from __future__ import annotations

import os
import pathlib
import sys

import click

from heterps.writing import check_target

__all__ = ["command"]

_CALL = "DASK_HETERPS__TIMEOUTS__CALL"

_EPILOG = """\b
Examples:
  heterps soak --minutes 10                              backups, Async
  heterps soak --minutes 10 --mode sync --replicas 1     returns to cuts
"""


@click.command(short_help="Kill and freeze workers of a training, and count.", epilog=_EPILOG)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, help="How long.")
@click.option("--mode", type=click.Choice(["sync", "async"]), default="async", show_default=True, help="As for train.")
@click.option("--replicas", type=click.IntRange(1, 2), default=2, show_default=True, help="Copies of each shard host.")
@click.option("--servers", type=click.IntRange(2), default=3, show_default=True, help="Server workers.")
@click.option("--io", type=click.IntRange(2), default=3, show_default=True, help="Io workers.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what happens when.")
@click.option("--log", default="soak.jsonl", show_default=True, help="Results are added to this file.")
@click.option("--logs", default="logs", show_default=True, help="Folder for one log file per process.")
def command(minutes: float, mode: str, replicas: int, servers: int, io: int, seed: int, log: str, logs: str) -> None:
    """Start a cluster on this machine, train a model whose exact result can be counted, hit workers at random.

    Prints for how long nothing was applied after each kind of fault. Ends with exit code 1 if a batch was lost or
    counted twice.
    """
    # Here, so that `heterps --help` need not import Dask.
    from heterps.runtime.cluster.launcher import Launch, launch_cluster

    check_target(log)
    os.environ.setdefault(_CALL, "15s")  # a frozen worker is to be given up within seconds
    words = ("-m", "heterps.soak", "--minutes", str(minutes), "--mode", mode, "--replicas", str(replicas),
             "--seed", str(seed), "--log", os.path.abspath(log))  # fmt: skip
    launch = Launch({"server": servers, "io": io}, words, pathlib.Path(logs), max_restarts=1_000_000)
    sys.exit(launch_cluster(launch, tell=lambda line: None))
