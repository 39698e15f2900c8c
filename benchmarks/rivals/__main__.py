"""What other ways of planning come to over the exact one, at the same throughput; all rivals with one budget.

python -m benchmarks.rivals [--budget 2000] [--types 2,8,64] [--models MATCHNET,NCE] [--seeds 3]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.rivals import RIVALS
from benchmarks.rivals.families import FAMILIES, problem_of
from benchmarks.rivals.trials import searched
from heterps.planner import solver
from heterps.planner.solve.effort import UndecidedError
from heterps.planner.solve.placement import Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.search import Solve


def timed(solve: Solve, problem: Problem, x: float) -> tuple[Placement | None, float]:
    """The placement (None: nothing found) and the processor seconds that it took."""
    start = time.process_time()
    try:
        found = solve(problem, x)
    except UndecidedError:
        found = None
    return found, time.process_time() - start


def row(name: str, types: int, x: float, budget: int, seeds: int) -> str:
    """One line: exact, then for each rival the price over exact (median and worst over seeds) and the seconds."""
    problem = problem_of(name, types, x)
    solver("exact").solve(problem, x)  # loads the compiled loops
    exact, exact_s = timed(solver("exact").solve, problem, x)
    assert exact is not None, f"{name} cannot reach {x:,.0f} rows/s"
    cells = [f"{name:10} {problem.layers:6} {types:5} {exact.price:9.2f} {1e3 * exact_s:8.3f}"]
    for search, _ in RIVALS.values():
        runs = [timed(searched(search, budget, seed), problem, x) for seed in range(seeds)]
        over = [found.price / exact.price if found else np.inf for found, _ in runs]
        assert min(over) >= 1 - 1e-9, f"{name}: a rival beats the plan that was proved"
        cells.append(f"{np.median(over):6.2f} {max(over):6.2f} {np.median([s for _, s in runs]):6.2f}")
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=int, default=2000, help="evaluations of each rival")
    parser.add_argument("--types", default="2,8,64", help="numbers of resource types")
    parser.add_argument("--models", default=",".join(FAMILIES), help="of these families")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows-per-second", type=float, default=500_000)
    chosen = parser.parse_args()
    models = chosen.models.split(",")
    if unknown := set(models) - set(FAMILIES):
        parser.error(f"no family {', '.join(sorted(unknown))}: there are {', '.join(FAMILIES)}")
    print(f"least price an hour at {chosen.rows_per_second:,.0f} rows/s; {chosen.budget:,} evaluations for each rival")
    head = f"{'model':10} {'layers':>6} {'types':>5} {'exact':>9} {'ms':>8}"
    print(" | ".join([head, *(f"{name:>9} worst  s     "[:20] for name in RIVALS)]))
    for types in map(int, chosen.types.split(",")):
        for name in models:
            print(row(name, types, chosen.rows_per_second, chosen.budget, chosen.seeds), flush=True)


if __name__ == "__main__":
    main()
