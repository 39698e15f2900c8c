"""The script that ``heterps soak`` runs under ``heterps launch``: trains rounds, hits workers, counts."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import psutil
from rich.table import Table

import heterps as hps
from heterps.screen import Screen
from heterps.soak.counted_model import count_shows, counted_data, counted_plan
from heterps.soak.tally import Tally, longest_stop, totals
from heterps.soak.victims import FAULTS, Victims

HOSTS, LANES, ROWS = 2, 2, 2000
ROUND_S, LEAST, MOST = 20.0, 2, 200  # how long a round is to take, and epochs that it may have
GOING_ON_S = 0.5  # since the last batch, in a run that goes on
BETWEEN_S = (1.0, 5.0)  # from one fault to the next
STOPPED_S = {"slow": 2.0, "freeze": 20.0}  # before one goes on, or is killed so that another takes its place
SAFE = 0.8  # of a round's samples, after which nobody is hit: what is lost after the last batch is another matter


def main() -> int:
    """Soak; return the exit code."""
    options = _options()
    random, tally, screen = Random(options.seed), Tally(), Screen()
    victims = Victims(psutil.Process().parent(), random)
    until, total, epochs = time.monotonic() + 60 * options.minutes, 0, LEAST
    with tempfile.TemporaryDirectory(prefix="heterps-soak-") as folder:
        plan = counted_plan(HOSTS, LANES)
        with hps.launch(
            plan, mode=options.mode, replicas=options.replicas, checkpoint=folder, every_s=5.0, report_s=0.05
        ) as session:
            data = counted_data(session, ROWS)
            while time.monotonic() < until:
                begin = time.monotonic()
                samples = _round(session, data, epochs, victims, random, tally)
                total += ROWS * epochs
                found = session.engine.each_shard(count_shows)
                tally.rounds += 1
                tally.inexact += (samples, *found) != (ROWS * epochs, *[total] * HOSTS)
                screen.print(f"round {tally.rounds}: {samples:,} samples, hosts counted {found}, {tally.kills} hit")
                epochs = max(LEAST, min(MOST, int(epochs * ROUND_S / (time.monotonic() - begin))))
    return _report(screen, tally, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--mode", default="async")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    return parser.parse_args()


def _round(session: hps.Session, data: hps.Dataset, epochs: int, victims: Victims, random: Random, tally: Tally) -> int:
    """Train once, hitting workers; return the samples that were applied."""
    applied: list[tuple[float, int]] = []
    hits: list[tuple[float, str]] = []
    next_hit, over_at, samples, moved = time.monotonic() + random.uniform(*BETWEEN_S), 0.0, 0, 0.0
    for progress in session.train(data, epochs):
        now = time.monotonic()
        moved, samples = now if progress.samples > samples else moved, progress.samples
        applied.append((now, samples))
        if now > over_at > 0:
            victims.thaw() if hits[-1][1].startswith("slow") else victims.clear()
            over_at = 0.0
        # Only what goes on is hit again: each stop is to be that of one fault.
        able = now - moved < GOING_ON_S and samples < SAFE * ROWS * epochs and not progress.unprotected and not over_at
        if able and now > next_hit:
            fault = random.choice(FAULTS)
            if victims.hit(fault):
                hits.append((now, fault))
                over_at = now + STOPPED_S[fault.split()[0]] if fault.split()[0] in STOPPED_S else 0.0
            next_hit = now + random.uniform(*BETWEEN_S)
    victims.clear()
    ends = [moment for moment, _ in hits[1:]] + [applied[-1][0]]
    for (moment, fault), end in zip(hits, ends, strict=False):
        tally.add(fault, longest_stop(applied, moment, end))
    return samples


def _report(screen: Screen, tally: Tally, options: argparse.Namespace) -> int:
    table = Table(
        title=f"mode {options.mode}, replicas {options.replicas}, {tally.rounds} rounds", title_justify="left"
    )
    for name in ("fault", "times", "stop s median", "p99", "most"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for row in tally.rows():
        table.add_row(*row)
    screen.print(table)
    tally.append_to(options.log, mode=options.mode, replicas=options.replicas, seed=options.seed)
    kills, rounds, inexact = totals(options.log)
    screen.print(f"{options.log}: {kills} killed or frozen in {rounds} rounds, {inexact} of these not exact")
    return 1 if tally.inexact else 0


if __name__ == "__main__":
    sys.exit(main())
