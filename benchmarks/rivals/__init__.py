"""Other ways to place Layers, registered through the public door, each with the same number of evaluations.

An evaluation is the price of one assignment of types to Layers, each stage with the units that it needs; neighbours on
one type are a stage, as in the HeterPS paper (arXiv 2111.10635), whose policy is one of them. ``python -m
benchmarks.rivals`` prints what each comes to over the exact plan.
"""

from __future__ import annotations

from benchmarks.rivals.bayesian import bayesian
from benchmarks.rivals.genetic import genetic
from benchmarks.rivals.hill import climb
from benchmarks.rivals.policy import policy
from benchmarks.rivals.trials import searched
from heterps.planner import Solver, register_solver

__all__ = ["RIVALS", "register_rivals"]

RIVALS = {
    "policy": (policy, "LSTM policy trained by REINFORCE, as the HeterPS paper does"),
    "genetic": (genetic, "crossing and mutation of the best"),
    "bayesian": (bayesian, "Gaussian process over assignments, expected improvement"),
    "climb": (climb, "greedy, then the best change of one Layer, again from random starts"),
}


def register_rivals(budget: int, seed: int = 0) -> None:
    """Make the rivals known to the planner (``hps.plan(..., solver="policy")``), with so many evaluations each."""
    for name, (search, doc) in RIVALS.items():
        register_solver(Solver(name, searched(search, budget, seed), doc))
