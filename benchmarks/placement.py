"""Public placement instances: least load of the fullest device, gap, cuts, time.

python -m benchmarks.placement throughput-inputs/LayerGraphs/*.json
"""

from __future__ import annotations

import sys

from heterps.errors import PlanError
from heterps.planner.costs.instance import read_instance
from heterps.planner.solve.max_load import least_load


def main(paths: list[str]) -> None:
    """Print a row per instance."""
    print(f"{'instance':50} {'load':>12} {'gap':>8} {'cuts':>8} {'seconds':>8}")
    for path in paths:
        try:
            found = least_load(read_instance(path))
        except PlanError as error:
            print(f"{path:50} {error}")
            continue
        print(f"{path[-50:]:50} {found.load:12.6g} {found.gap:8.2%} {found.cuts:8,} {found.seconds:8.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
