"""``heterps discover``: what a running cluster is, as a hardware file for the planner."""

from __future__ import annotations

import click

from heterps.writing import check_target, write_whole

__all__ = ["command"]

_PATIENCE_S = 4.0  # somebody waits at the keyboard

_EPILOG = """\b
Examples:
  heterps discover tcp://127.0.0.1:8786                  pools, hosts and links as TOML
  heterps discover --out cluster.toml                    of the cluster in DASK_SCHEDULER_ADDRESS
  heterps plan wide_deep --hardware cluster.toml
"""


@click.command(epilog=_EPILOG)
@click.argument("scheduler", required=False)
@click.option("--out", type=click.Path(dir_okay=False), help="Write to this file instead of the screen.")
@click.option("--links/--no-links", default=True, help="Send bytes between pools to measure their links.")
def command(scheduler: str | None, out: str | None, links: bool) -> None:
    """Probe every worker of the cluster at SCHEDULER (default: the one Dask's config names)."""
    # Here, so that `heterps --help` need not import Dask.
    from heterps.runtime.cluster.connect import client_of
    from heterps.runtime.cluster.probe import discover

    if out is not None:
        check_target(out)
    with client_of(scheduler, within_s=_PATIENCE_S) as client:
        text = discover(client, links=links).to_toml()
    if out is None:
        click.echo(text)
    else:
        write_whole(out, text)
