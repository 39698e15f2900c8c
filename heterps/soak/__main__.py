"""The script that ``heterps soak`` runs under ``heterps launch``: trains rounds, hits workers, counts."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import psutil
from distributed import Client
from rich.table import Table

import heterps as hps
from heterps.errors import HeterpsError
from heterps.runtime.cluster.children import Children
from heterps.screen import Screen
from heterps.soak.counted_model import counted_plan
from heterps.soak.network import Links
from heterps.soak.rounds import Pace, at_random, each_once, rounds
from heterps.soak.starting import Soak
from heterps.soak.tally import Tally, totals
from heterps.soak.victims import Victims, faults_of

HOSTS, LANES = 2, 2
EVERY_S, REPORT_S = 5.0, 0.05  # between cuts, and between reports
GRACE_S = 5.0  # for workers that were added, at the end


def main() -> int:
    """Soak; return the exit code."""
    soak = Soak(**json.loads(sys.argv[1]))
    tally, screen, random, until = Tally(), Screen(), Random(soak.seed), time.monotonic() + 60 * soak.minutes
    left = list(faults_of(soak.faults, bool(soak.network)))
    choose = each_once(left) if soak.each else at_random(left, random)
    ended = ""
    try:
        with ExitStack() as stack:
            session, twin, victims = _open(soak, stack, random)
            for found in rounds(session, twin, victims, choose, random, Pace(), warm=True):
                tally.end_round(found.hits, found.exact)
                screen.print(f"round {tally.rounds}: {found}")
                if time.monotonic() > until or not left:
                    break
                victims.fill(left if soak.each else ())
    except HeterpsError as error:  # what was counted before is still true
        ended = f"the run did not survive: {error}"
    _report(screen, tally, soak)
    if ended:
        screen.print(ended)
    return 1 if ended or tally.inexact else 0


def _open(soak: Soak, stack: ExitStack, random: Random) -> tuple[hps.Session, hps.Session | None, Victims]:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="heterps-soak-"))
    client = stack.enter_context(Client(set_as_default=False))
    children = stack.enter_context(Children(0, GRACE_S))
    links = Links(Path(soak.network)) if soak.network else None
    usual = {"server": soak.servers, "io": soak.io}
    victims = Victims(psutil.Process().parent(), random, usual, client, children, links, Path(soak.logs), folder)
    plan, mode = counted_plan(HOSTS, LANES), soak.mode
    opened = hps.launch(
        plan, client, mode=mode, replicas=soak.replicas, checkpoint=folder, every_s=EVERY_S, report_s=REPORT_S
    )
    session = stack.enter_context(opened)
    twin = stack.enter_context(hps.launch(plan, engine="inline", mode=mode)) if soak.bits else None
    return session, twin, victims


def _report(screen: Screen, tally: Tally, soak: Soak) -> None:
    log, about = Path(soak.log), {"mode": soak.mode, "replicas": soak.replicas}
    tally.append_to(log, **about, seed=soak.seed)
    screen.print(_table(tally, f"mode {soak.mode}, replicas {soak.replicas}, {tally.rounds} rounds"))
    same, everything = totals(log, **about), totals(log)
    screen.print(_table(same, f"{soak.log}, all with this mode and replicas: {same.rounds} rounds"))
    screen.print(
        f"{soak.log}: {everything.kills} killed, frozen or cut off in {everything.rounds} rounds, "
        f"{everything.inexact} of these not exact"
    )


def _table(tally: Tally, title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("fault", "times", "exact", "stop s median", "p99", "most", "throughput lost"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for row in tally.rows():
        table.add_row(*row)
    return table


if __name__ == "__main__":
    sys.exit(main())
