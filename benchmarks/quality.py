"""AUC of every system after one pass over the same samples from a fresh start, and on real Criteo rows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import criteo, peers, workload
from benchmarks.contender import Contender, ContenderError, Entry
from benchmarks.systems import LIMIT, TCP, Case, entries

SKIPPED = (LIMIT, f"{LIMIT} 1x2", TCP)  # what cannot learn, and what is the same program with other wires
CASE = Case("wide_deep", "adagrad", 1024)
CRITEO_BATCH = 128


def compare(chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Scores by system and seed: on the workload, then on Criteo where a file was given."""
    shape, samples, test = workload.Workload(), chosen.learn, 102_400
    common = {"data": workload.data_file(shape, samples + test), "train": samples, "test": test, **asdict(CASE)}
    yield scores(f"workload, adagrad, {samples:,} samples", common, chosen)
    if chosen.criteo:
        data, train, test = criteo.samples_file(Path(chosen.criteo))
        common = {"data": data, "train": train, "test": test, **asdict(replace(CASE, batch=CRITEO_BATCH))}
        yield scores(f"Criteo, adagrad, {train:,} samples", common, chosen)


def scores(title: str, common: dict[str, Any], chosen: argparse.Namespace) -> dict[str, Any]:
    names = {name.strip() for name in chosen.only.split(",") if name.strip()}
    taking_part = [e for e in entries(CASE) if e.name not in SKIPPED and (not names or e.name in names)]
    found: dict[str, list[float]] = {}
    for seed in range(1, chosen.seeds + 1):
        for entry in taking_part:
            score = _score(entry, {**common, "seed": seed})
            if score is not None:
                found.setdefault(entry.name, []).append(score)
                print(f"  {entry.name:18} seed {seed} AUC {score:.4f}", file=sys.stderr, flush=True)
    return {"title": title, "auc": found}


def _score(entry: Entry, common: dict[str, Any]) -> float | None:
    contender = None
    try:
        python = peers.ensure(entry.peer) if entry.peer else Path(sys.executable)
        contender = Contender(entry, python, common)
        contender.wait_ready()
        contender.learn(common["train"])
        return contender.score()
    except (ContenderError, peers.PeerError) as error:
        print(f"  {entry.name}: {error}", file=sys.stderr)
        return None
    finally:
        if contender:
            contender.close()
