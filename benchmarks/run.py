"""Run ours and the peers side by side: ``python -m benchmarks.run [--quick] [--only NAMES] [--cases 0,2]``.

Every system is started once per case and then gets one window per round, in an order that turns from round to round, so
that whatever else happens on the machine falls on all of them. What is reported are ratios within a round. Results are
kept: cases can be measured one at a time, and the page is made of the newest figures of each. Then the AUC of all
systems after equal samples, and on Criteo where ``--criteo FILE`` gives it (``--cases none`` for these alone).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import files, machine, peers, quality, report, results, workload
from benchmarks.contender import Contender, ContenderError, Entry
from benchmarks.systems import CASES, Case, entries

TEST_SAMPLES = 102_400
LIST_SAMPLES = 49_152
FILES = {"tsv": files.tsv, "parquet": files.parquet}


def options(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="first case only, short windows")
    parser.add_argument("--only", default="", help="comma-separated names of systems, for example 'PyTorch,FBGEMM'")
    parser.add_argument("--cases", default="", help="comma-separated numbers of cases, from 0, or 'none'")
    parser.add_argument("--rounds", type=int, default=0, help="windows per system (default 7; quick: 3)")
    parser.add_argument("--seconds", type=float, default=0, help="length of a window (default 6; quick: 3)")
    parser.add_argument("--samples", type=int, default=204_800, help="training samples in memory or files")
    parser.add_argument("--no-quality", action="store_true", help="skip the AUC after equal samples")
    parser.add_argument("--learn", type=int, default=819_200, help="samples of the AUC's pass (default 819200)")
    parser.add_argument("--seeds", type=int, default=1, help="runs the AUC is the mean of")
    parser.add_argument("--criteo", default="", help="a TSV file of Criteo rows to compare the AUC on")
    parser.add_argument("--no-docs", action="store_true", help="print only; leave docs/benchmarks.md alone")
    chosen = parser.parse_args(argv)
    for name, full, quick in (("rounds", 7, 3), ("seconds", 6.0, 3.0)):
        setattr(chosen, name, getattr(chosen, name) or (quick if chosen.quick else full))
    return chosen


def cases(chosen: argparse.Namespace) -> list[Case]:
    if chosen.cases == "none":
        return []
    numbers = [int(n) for n in chosen.cases.split(",") if n] or range(1 if chosen.quick else len(CASES))
    return [CASES[n] for n in numbers]


def wanted(case: Case, only: str) -> list[Entry]:
    names = {name.strip() for name in only.split(",") if name.strip()}
    return [entry for entry in entries(case) if not names or entry.name in names]


def start(entry: Entry, case: Case, samples: int) -> Contender:
    """Start a system and wait until it is built."""
    python, shape = peers.ensure(entry.peer) if entry.peer else Path(sys.executable), workload.shape_of(case.model)
    test = TEST_SAMPLES
    if shape.lists:  # ten times the ids of the others
        samples, test = min(samples, LIST_SAMPLES), workload.CHUNK - LIST_SAMPLES
    data = workload.data_file(shape, samples + test)
    common = {"data": data, "train": samples, "test": test, **asdict(case)}
    if case.source in FILES:
        common["file"] = FILES[case.source](shape, samples)
    contender = Contender(entry, python, common)
    try:
        contender.wait_ready()
    except ContenderError:
        contender.close()
        raise
    return contender


def speed(case: Case, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Interleaved windows of every system; one row each, with the error where it could not run."""
    rows = {entry.name: {"name": entry.name, "windows": [], "error": ""} for entry in wanted(case, chosen.only)}
    running: list[Contender] = []
    try:
        for entry in wanted(case, chosen.only):
            say(f"  start {entry.name}")
            try:
                running.append(start(entry, case, chosen.samples))
                running[-1].warm_up(chosen.seconds / 2)
            except (ContenderError, peers.PeerError) as error:
                rows[entry.name]["error"] = str(error)
        for number in range(chosen.rounds):
            for contender in running[number % len(running) :] + running[: number % len(running)]:
                _window(contender, rows[contender.entry.name], chosen.seconds)
    finally:
        for contender in running:
            rows[contender.entry.name]["peak_bytes"] = contender.close()
    return list(rows.values())


def _window(contender: Contender, row: dict[str, Any], seconds: float) -> None:
    if row["error"]:
        return
    try:
        window = contender.go(seconds)
    except ContenderError as error:
        row["error"], row["windows"] = str(error), []
        return
    row["windows"].append(asdict(window))
    say(f"  {contender.entry.name:18} {window.rate:9.0f} samples/s {window.rate_per_core:9.0f} per CPU s")


def main(argv: list[str] | None = None) -> None:
    chosen, result = options(argv), results.load()
    say("compile our loops, so that no window measures that")
    subprocess.run([sys.executable, "-m", "heterps", "warm"], check=True, stdout=subprocess.DEVNULL)
    for case in cases(chosen):
        say(case.title)
        settings = {name: getattr(chosen, name) for name in ("rounds", "seconds", "samples")}
        measured = {"case": asdict(case), "settings": settings, "machine": machine.spare(), "rows": speed(case, chosen)}
        print(report.case_table(measured))
        result["cases"][case.title] = measured
        results.keep(result)
    if not (chosen.no_quality or chosen.quick):
        for measured in quality.compare(chosen):
            result["quality"][measured["title"]] = measured
            print(report.quality_table(measured))
            results.keep(result)
    print(report.target_table(result))
    if not chosen.no_docs:
        report.write(result)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
