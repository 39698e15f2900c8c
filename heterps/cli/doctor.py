"""``heterps doctor``: what works on this machine, and the sentence that mends what does not."""

from __future__ import annotations

import dataclasses
import json
import sys

import click
from rich.console import Console
from rich.markup import escape

__all__ = ["command"]

_MARKS = {"ok": "[green]ok     [/]", "failed": "[red]FAILED [/]", "absent": "absent ", "skipped": "skipped"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print findings as JSON.")
@click.option("--gpu", "want_gpu", is_flag=True, help="A GPU is wanted: its absence is a failure.")
def command(as_json: bool, want_gpu: bool) -> None:
    r"""Examine this machine: packages, BLAS, compiled loops, limits, disk, network, GPU.

    With a GPU every CUDA kernel is run against NumPy and copies are timed. Ends with 1 if something failed; the absence
    of a GPU is a failure only with --gpu.

    \b
    Examples:
      heterps doctor
      heterps doctor --gpu --json > doctor.json
    """
    # Here, so that `heterps --help` need not import everything that is examined.
    from heterps.cli._examinations import Surroundings, examine

    console = Console(highlight=False)
    findings = []
    for finding in examine(Surroundings(), want_gpu=want_gpu):
        findings.append(finding)
        if not as_json:
            console.print(f"{_MARKS[finding.status]} {finding.name}: {escape(finding.text)}", soft_wrap=True)
            if finding.remedy:
                console.print(f"        -> {escape(finding.remedy)}", soft_wrap=True)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(f) for f in findings], indent=2))
    sys.exit(any(f.status == "failed" for f in findings))
