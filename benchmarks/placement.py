"""Placement instances: least load of the fullest device, gap, cuts, processor time; public files, and made-up ones.

python -m benchmarks.placement throughput-inputs/LayerGraphs/*.json
python -m benchmarks.placement --made
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time

from benchmarks.made_instances import MADE
from heterps.errors import PlanError
from heterps.planner.costs.instance import read_instance
from heterps.planner.solve.max_load import least_load


def row(name: str, path: str) -> str:
    """One line: ops, load, gap, cuts, processor seconds with the file's reading."""
    start = time.process_time()
    try:
        read = read_instance(path)
        found = least_load(read)
    except PlanError as error:
        return f"{name:40} {error}"
    seconds, ops = time.process_time() - start, sum(len(ids) for ids in read.ids)
    return f"{name[-40:]:40} {ops:6,} {found.load:12.6g} {found.gap:8.2%} {found.cuts:8,} {seconds:8.2f}"


def main() -> None:
    """Print a row per instance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="instances in the public format")
    parser.add_argument("--made", action="store_true", help="made-up ones of the same sizes too")
    chosen = parser.parse_args()
    least_load(read_instance(_saved(MADE["operators"]())))  # loads the compiled loops
    print(f"{'instance':40} {'ops':>6} {'load':>12} {'gap':>8} {'cuts':>8} {'seconds':>8}")
    for path in chosen.files:
        print(row(path, path), flush=True)
    for name, make in MADE.items() if chosen.made else ():
        print(row(name, _saved(make())), flush=True)


def _saved(data: dict[str, object]) -> str:
    path = pathlib.Path(tempfile.mkdtemp()) / "instance.json"
    path.write_text(json.dumps(data))
    return str(path)


if __name__ == "__main__":
    main()
