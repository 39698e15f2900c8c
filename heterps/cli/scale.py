"""``heterps scale``: fewer workers for a run that goes on."""

from __future__ import annotations

import time

import click

from heterps.errors import ClusterError

__all__ = ["command"]

_LOOK_S = 0.25

_EPILOG = """\b
Examples:
  heterps scale tcp://127.0.0.1:8786 --servers 2         hand the others' shard hosts over, then let them go
  heterps scale --io 4 --seconds 300                     of the cluster in DASK_SCHEDULER_ADDRESS
"""


@click.command(short_help="Let workers of a running training go.", epilog=_EPILOG)
@click.argument("scheduler", required=False)
@click.option("--servers", type=click.IntRange(1), help="Server workers that are to stay.")
@click.option("--io", type=click.IntRange(1), help="Io workers that are to stay.")
@click.option("--compute", type=click.IntRange(1), help="Compute workers that are to stay.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, help="How long to wait."
)
def command(scheduler: str | None, servers: int | None, io: int | None, compute: int | None, seconds: float) -> None:
    """Ask the training on the cluster at SCHEDULER to do with fewer workers, and wait until the others have left.

    Splits of a worker go to others at a batch boundary; shard hosts are copied to other servers while training goes on.
    To have more workers start them: a running training takes them in by itself.
    """
    # Here, so that `heterps --help` need not import Dask.
    from heterps.runtime.cluster.connect import client_of
    from heterps.runtime.run.scaling import ask_to_scale, workers_by_role

    options = {"servers": servers, "io": io, "compute": compute}
    wanted = {role: count for role, count in options.items() if count is not None}
    if not wanted:
        raise ClusterError("scale what? Give --servers, --io or --compute")
    with client_of(scheduler) as client:
        ask_to_scale(client, wanted)
        until = time.monotonic() + seconds
        while any(workers_by_role(client)[role] > count for role, count in wanted.items()):
            if time.monotonic() > until:
                raise ClusterError(f"after {seconds:g} s there are still {_words(workers_by_role(client))}")
            time.sleep(_LOOK_S)
        click.echo(_words(workers_by_role(client)))


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {role}" for role, count in counts.items() if count)
