"""The script that ``heterps soak`` runs under ``heterps launch``: trains rounds, hits workers, counts."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import numpy as np
import psutil
from distributed import Client
from rich.table import Table

import heterps as hps
from heterps.runtime.cluster.children import Children
from heterps.screen import Screen
from heterps.soak.counted_model import all_rows, count_shows, counted_data, counted_plan
from heterps.soak.network import Links
from heterps.soak.rounds import Chooser, hit_while_training
from heterps.soak.starting import Soak
from heterps.soak.tally import Tally, totals
from heterps.soak.victims import Victims, faults_of

HOSTS, LANES, ROWS = 2, 2, 2000
LEAST, MOST = 2, 200  # epochs that a round may have
GRACE_S = 5.0  # for workers that were added, at the end


def main() -> int:
    """Soak; return the exit code."""
    soak = Soak(**json.loads(sys.argv[1]))
    tally, screen, random = Tally(), Screen(), Random(soak.seed)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="heterps-soak-"))
        client = stack.enter_context(Client(set_as_default=False))
        children = stack.enter_context(Children(0, GRACE_S))
        network = Links(Path(soak.network)) if soak.network else None
        usual = {"server": soak.servers, "io": soak.io}
        victims = Victims(psutil.Process().parent(), random, usual, client, children, network, Path(soak.logs), folder)
        faults = faults_of(soak.faults, network is not None)
        choose, is_over = _plan(soak, faults, random)
        plan = counted_plan(HOSTS, LANES)
        session = stack.enter_context(
            hps.launch(plan, client, mode=soak.mode, replicas=soak.replicas, checkpoint=folder, every_s=5.0,
                       report_s=0.05)
        )  # fmt: skip
        twin = stack.enter_context(hps.launch(plan, engine="inline", mode=soak.mode)) if soak.bits else None
        for found in _rounds(session, twin, victims, choose, random, tally, soak.round_s):
            screen.print(found)
            if is_over():
                break
    return _report(screen, tally, soak)


def _rounds(
    session: hps.Session,
    twin: hps.Session | None,
    victims: Victims,
    choose: Chooser,
    random: Random,
    tally: Tally,
    round_s: float,
) -> Iterator[str]:
    """Train round after round, and say of each what came out."""
    data, total, epochs = counted_data(session, ROWS), 0, LEAST
    while True:
        begin = time.monotonic()
        samples, hits = hit_while_training(session, data, epochs, ROWS * epochs, victims, choose, random)
        total += ROWS * epochs
        found = session.engine.each_shard(count_shows)
        exact = (samples, *found) == (ROWS * epochs, *[total] * HOSTS)
        took_s = time.monotonic() - begin
        if twin is not None:
            twin.fit(data, epochs)
            exact &= np.array_equal(all_rows(session), all_rows(twin))
        tally.end_round(hits, exact)
        struck = ", ".join(f"{fault} {hit.stop_s:.2f} s" for fault, hit in hits) or "nobody hit"
        said = "exact" if exact else f"NOT EXACT: {samples:,} samples, hosts counted {found}, {total:,} wanted"
        yield f"round {tally.rounds}: {samples:,} samples in {took_s:.0f} s, {said}; {struck}"
        epochs = max(LEAST, min(MOST, int(epochs * round_s / took_s)))


def _plan(soak: Soak, faults: tuple[str, ...], random: Random) -> tuple[Chooser, Callable[[], bool]]:
    """Return what chooses the next fault, and what says whether it is enough: each once, or at random for a time."""
    until = time.monotonic() + 60 * soak.minutes
    if not soak.each:
        return (lambda: random.choice(faults)), (lambda: time.monotonic() > until)
    left = list(faults)
    return (lambda: left.pop(0) if left else None), (lambda: not left or time.monotonic() > until)


def _report(screen: Screen, tally: Tally, soak: Soak) -> int:
    log, about = Path(soak.log), {"mode": soak.mode, "replicas": soak.replicas}
    tally.append_to(log, **about, seed=soak.seed)
    screen.print(_table(tally, f"mode {soak.mode}, replicas {soak.replicas}, {tally.rounds} rounds"))
    same, everything = totals(log, **about), totals(log)
    screen.print(_table(same, f"{soak.log}, all with this mode and replicas: {same.rounds} rounds"))
    screen.print(
        f"{soak.log}: {everything.kills} killed, frozen or cut off in {everything.rounds} rounds, "
        f"{everything.inexact} of these not exact"
    )
    return 1 if tally.inexact else 0


def _table(tally: Tally, title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("fault", "times", "exact", "stop s median", "p99", "most", "throughput lost"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for row in tally.rows():
        table.add_row(*row)
    return table


if __name__ == "__main__":
    sys.exit(main())
