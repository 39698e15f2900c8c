"""``heterps launch``: a cluster on this machine around a script, or the commands for many machines."""

from __future__ import annotations

import pathlib
import sys

import click

from heterps.errors import ClusterError

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps launch --servers 1 --io 2 --compute 1 train.py --epochs 3
  heterps launch --io 4 --gpus 2 --logs run7 --max-restarts 0 train.py
  heterps launch --io 4 --pool v100=2 --pool p40=1 train.py    GPUs of two kinds
  heterps launch --io 2 --compute 1                     keep a cluster up until Ctrl-C
  heterps launch --tls --certs certs --host 10.0.0.5    let other machines join
  heterps launch --tls --servers 2 --io 4 --gpus 1 \\
      --hosts 10.0.0.5,10.0.0.6,10.0.0.7=gpu train.py   print the commands for three machines
"""


@click.command(epilog=_EPILOG, context_settings={"allow_interspersed_args": False})
@click.option(
    "--servers",
    "server",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Workers that hold shards of the tables.",
)
@click.option("--io", type=click.IntRange(0), default=1, show_default=True, help="Workers that read and look up.")
@click.option(
    "--compute", type=click.IntRange(0), default=0, show_default=True, help="Workers for dense layers, on CPUs."
)
@click.option(
    "--gpus", "gpu", type=click.IntRange(0), default=0, show_default=True, help="Workers for dense layers, one per GPU."
)
@click.option(
    "--pool",
    "more",
    multiple=True,
    metavar="NAME=N",
    help="Workers of a pool of another name; one named after a GPU, such as v100, has one such GPU for each.",
)
@click.option("--logs", default="logs", show_default=True, help="Folder for one log file per process.")
@click.option("--max-restarts", type=click.IntRange(0), help="Restarts of one process before all is stopped.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the scheduler; a free one, or 8786 with --hosts.")
@click.option("--dashboard", type=click.IntRange(0, 65535), help="Show Dask's dashboard on this port of 127.0.0.1.")
@click.option("--tls", is_flag=True, help="Make certificates and use them.")
@click.option("--hosts", help="Print the commands for these machines, a,b=pool+pool,...; the first runs the scheduler.")
@click.option("--certs", help="With --tls: folder of the certificates, to be used by other machines too.")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="With --hosts: cores of each worker."
)
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def command(
    server: int,
    io: int,
    compute: int,
    gpu: int,
    more: tuple[str, ...],
    logs: str,
    max_restarts: int | None,
    host: str,
    port: int | None,
    dashboard: int | None,
    tls: bool,
    hosts: str | None,
    certs: str | None,
    threads: int,
    module: bool,
    script: tuple[str, ...],
) -> None:
    """Start scheduler and workers on this machine, run SCRIPT with its arguments, end with its exit code.

    The script finds the cluster by itself: heterps.launch(plan) and distributed.Client() connect to it. What dies is
    restarted; nothing is left running at the end.
    """
    # Here, so that `heterps --help` need not import Dask.
    from heterps.runtime.cluster.launcher import Launch, launch_cluster
    from heterps.runtime.cluster.many_hosts import many_hosts

    pools = {"server": server, "io": io, "compute": compute, "gpu": gpu} | _named_pools(more)
    words = ("-m", *script) if module else script
    if hosts is not None:
        folder = (certs or "certs") if tls else None
        text = many_hosts(hosts, pools, words, port=port or 8786, certs=folder, dashboard=dashboard, threads=threads)
        click.echo(text)
        return
    if script and not module:
        _check_script(script[0])
    launch = Launch(
        pools, words, pathlib.Path(logs), host, port or 0, tls, pathlib.Path(certs) if certs else None, dashboard,
        max_restarts,
    )  # fmt: skip
    sys.exit(launch_cluster(launch, tell=lambda line: click.echo(f"heterps launch: {line}", err=True)))


def _check_script(path: str) -> None:
    """Refuse a script that is not there, before a cluster is started for it; Python's own options (-c) are none."""
    if not path.startswith("-") and not pathlib.Path(path).exists():
        raise ClusterError(f"there is no script {path} in {pathlib.Path.cwd()}")


def _named_pools(given: tuple[str, ...]) -> dict[str, int]:
    """Read ``v100=2``, each pool once."""
    pools: dict[str, int] = {}
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdigit():
            raise click.BadParameter(f"{text!r}: write a name and a number, such as v100=2", param_hint="--pool")
        if name in (*pools, "server", "io", "compute", "gpu"):
            raise click.BadParameter(
                f"pool {name!r} is asked for twice, or has an option of its own", param_hint="--pool"
            )
        pools[name] = int(number)
    return pools
