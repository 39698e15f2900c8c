"""Decisions: which Layers form a Stage, on which pool, with how many workers, and the proof."""

from heterps.planner.comparing import compare, frontier
from heterps.planner.costs.expectation import play
from heterps.planner.costs.forecast import Certificate, Cost, Forecast, Rival, StageForecast, TableForecast
from heterps.planner.costs.profile import Profile, Rates
from heterps.planner.costs.sample import Sample, sample_batches, sample_dataset
from heterps.planner.goals import FixedRate, Goal, MaxThroughput, MinCost
from heterps.planner.plan import Plan, Share, Stage
from heterps.planner.planner import Request, plan
from heterps.planner.show.diff import diff
from heterps.planner.solve.solvers import Solver, register_solver, solver, solvers
from heterps.planner.validate import validate

__all__ = [
    "Certificate",
    "Cost",
    "FixedRate",
    "Forecast",
    "Goal",
    "MaxThroughput",
    "MinCost",
    "Plan",
    "Profile",
    "Rates",
    "Request",
    "Rival",
    "Sample",
    "Share",
    "Solver",
    "Stage",
    "StageForecast",
    "TableForecast",
    "compare",
    "diff",
    "frontier",
    "plan",
    "play",
    "register_solver",
    "sample_batches",
    "sample_dataset",
    "solver",
    "solvers",
    "validate",
]
