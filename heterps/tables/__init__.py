"""Parameters: sparse rows that grow, dense arrays, the rules that change them, snapshots."""

from heterps.tables.accessor import ACCESSORS, Accessor, CtrAccessor
from heterps.tables.entries import ENTRIES, CountEntry, Entry, ProbabilityEntry, ShowClickEntry
from heterps.tables.gradients import RowGradients, sum_lanes
from heterps.tables.initialisers import INITIALISERS, Constant, Initialiser, Normal, Uniform, Xavier, Zeros
from heterps.tables.routing import Routed, Router, gather_rows, spread_shards, sum_rows
from heterps.tables.rules import (
    FTRL,
    RULES,
    SGD,
    AdaGrad,
    Adam,
    ElementAdaGrad,
    Momentum,
    RowWiseAdaGrad,
    Rule,
    SharedAdam,
    StdAdaGrad,
    Sum,
)
from heterps.tables.schedules import SCHEDULES, Exponential, Schedule, Steps, Warmup
from heterps.tables.shard import Applied, Pulled, Shard
from heterps.tables.spec import N_SHARDS, DenseSpec, GroupSpec, TableSpec

__all__ = [
    "ACCESSORS",
    "ENTRIES",
    "FTRL",
    "INITIALISERS",
    "N_SHARDS",
    "RULES",
    "SCHEDULES",
    "SGD",
    "Accessor",
    "AdaGrad",
    "Adam",
    "Applied",
    "Constant",
    "CountEntry",
    "CtrAccessor",
    "DenseSpec",
    "ElementAdaGrad",
    "Entry",
    "Exponential",
    "GroupSpec",
    "Initialiser",
    "Momentum",
    "Normal",
    "ProbabilityEntry",
    "Pulled",
    "Routed",
    "Router",
    "RowGradients",
    "RowWiseAdaGrad",
    "Rule",
    "Schedule",
    "Shard",
    "SharedAdam",
    "ShowClickEntry",
    "StdAdaGrad",
    "Steps",
    "Sum",
    "TableSpec",
    "Uniform",
    "Warmup",
    "Xavier",
    "Zeros",
    "gather_rows",
    "spread_shards",
    "sum_lanes",
    "sum_rows",
]
