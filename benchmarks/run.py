"""Run ours and the peers side by side: ``python -m benchmarks.run [--quick] [--only NAMES] [--rounds N]``.

Every system is started once per case and then gets one window per round, in an order that turns from round to round, so
that whatever else happens on the machine falls on all of them. What is reported are ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine, peers, report, workload
from benchmarks.contender import Contender, ContenderError, Entry, Window
from benchmarks.systems import CASES, LIMIT, Case, entries

TEST_SAMPLES = 102_400
LOGS = workload.DATA_FOLDER / "logs"
RESULTS = workload.DATA_FOLDER / "results.json"


def options(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="first case only, short windows, fewer samples")
    parser.add_argument("--only", default="", help="comma-separated names of systems, for example 'PyTorch,FBGEMM'")
    parser.add_argument("--cases", default="", help="comma-separated numbers of cases, from 0")
    parser.add_argument("--rounds", type=int, default=0, help="windows per system (default 7; quick: 3)")
    parser.add_argument("--seconds", type=float, default=0, help="length of a window (default 8; quick: 3)")
    parser.add_argument("--samples", type=int, default=0, help="training samples (default 819200; quick: 204800)")
    parser.add_argument("--no-quality", action="store_true", help="skip the AUC after equal samples")
    parser.add_argument("--no-docs", action="store_true", help="print only; leave docs/benchmarks.md alone")
    chosen = parser.parse_args(argv)
    for name, full, quick in (("rounds", 7, 3), ("seconds", 8.0, 3.0), ("samples", 819_200, 204_800)):
        setattr(chosen, name, getattr(chosen, name) or (quick if chosen.quick else full))
    return chosen


def wanted(case: Case, only: str) -> list[Entry]:
    names = {name.strip() for name in only.split(",") if name.strip()}
    return [entry for entry in entries(case) if not names or entry.name in names]


def start(entry: Entry, case: Case, chosen: argparse.Namespace) -> Contender:
    """Start a system and wait until it is built."""
    python = peers.ensure(entry.peer) if entry.peer else Path(sys.executable)
    data = workload.data_file(workload.Workload(), chosen.samples + TEST_SAMPLES)
    common = {"data": data, "train": chosen.samples, "test": TEST_SAMPLES, **asdict(case)}
    contender = Contender(entry, python, common, LOGS)
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
            _say(f"  start {entry.name}")
            try:
                running.append(start(entry, case, chosen))
                running[-1].go(chosen.seconds / 2)
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
        window: Window = contender.go(seconds)
    except ContenderError as error:
        row["error"] = str(error)
        return
    row["windows"].append(asdict(window))
    _say(f"  {contender.entry.name:18} {window.rate:9.0f} samples/s {window.rate_per_core:9.0f} per CPU s")


def quality(case: Case, chosen: argparse.Namespace) -> dict[str, float]:
    """AUC of every system after one pass over the same samples from a fresh start."""
    found = {}
    for entry in wanted(case, chosen.only):
        if entry.name.startswith(LIMIT):
            continue
        contender = None
        try:
            contender = start(entry, case, chosen)
            contender.learn(chosen.samples)
            found[entry.name] = contender.score()
            _say(f"  {entry.name:18} AUC {found[entry.name]:.4f}")
        except (ContenderError, peers.PeerError) as error:
            _say(f"  {entry.name}: {error}")
        finally:
            if contender:
                contender.close()
    return found


def main(argv: list[str] | None = None) -> None:
    chosen = options(argv)
    numbers = [int(n) for n in chosen.cases.split(",") if n] or range(1 if chosen.quick else len(CASES))
    result: dict[str, Any] = {
        "machine": machine.describe(),
        "settings": {k: getattr(chosen, k) for k in ("rounds", "seconds", "samples", "quick")},
        "cases": [],
    }
    for case in (CASES[n] for n in numbers):
        _say(case.title)
        measured = {"case": asdict(case), "rows": speed(case, chosen)}
        # Quality is a property of the rule, not of the batch: judged once per rule, at the first case that has it.
        seen = any(c["case"]["rule"] == case.rule and c["auc"] for c in result["cases"])
        measured["auc"] = {} if chosen.no_quality or seen else quality(case, chosen)
        result["cases"].append(measured)
        print(report.case_table(measured))
        RESULTS.write_text(json.dumps(result, indent=1))
    if not chosen.no_docs:
        report.write(result)


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
