"""Parameters: sparse rows that grow, dense arrays, the rules that change them, snapshots."""

from heterps.tables.accessor import ACCESSORS, Accessor, CtrAccessor
from heterps.tables.ageing import KINDS, Kind
from heterps.tables.cut import Cut
from heterps.tables.entries import ENTRIES, CountEntry, Entry, ProbabilityEntry, ShowClickEntry
from heterps.tables.gradients import RowGradients, sum_lanes
from heterps.tables.initialisers import INITIALISERS, Constant, Initialiser, Normal, Uniform, Xavier, Zeros
from heterps.tables.load import find_generation, load_table, restore, verify
from heterps.tables.manifest import Manifest, Part
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
from heterps.tables.snapshot import Snapshots, save_shard, write_part
from heterps.tables.spec import N_SHARDS, DenseSpec, GroupSpec, TableSpec

__all__ = [
    "ACCESSORS",
    "ENTRIES",
    "FTRL",
    "INITIALISERS",
    "KINDS",
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
    "Cut",
    "DenseSpec",
    "ElementAdaGrad",
    "Entry",
    "Exponential",
    "GroupSpec",
    "Initialiser",
    "Kind",
    "Manifest",
    "Momentum",
    "Normal",
    "Part",
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
    "Snapshots",
    "StdAdaGrad",
    "Steps",
    "Sum",
    "TableSpec",
    "Uniform",
    "Warmup",
    "Xavier",
    "Zeros",
    "find_generation",
    "gather_rows",
    "load_table",
    "restore",
    "save_shard",
    "spread_shards",
    "sum_lanes",
    "sum_rows",
    "verify",
    "write_part",
]
