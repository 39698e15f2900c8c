"""Parameters: sparse rows that grow, dense arrays, the rules that change them, snapshots."""

from heterps.tables.live.ageing import KINDS, Kind
from heterps.tables.live.cached_rows import CachedRows, cached_row_bytes
from heterps.tables.live.following import (
    FollowedRows,
    Moment,
    begin_following,
    changes_since,
    stop_following,
    without_deleted,
)
from heterps.tables.live.gathered import Gathered
from heterps.tables.live.gradients import RowGradients, sum_lanes
from heterps.tables.live.local_dense import LocalDense
from heterps.tables.live.local_rows import LocalRows, OwedRows
from heterps.tables.live.own_dense import OwnDense
from heterps.tables.live.readers import Changes
from heterps.tables.live.routing import RouteBuffers, Routed, Router
from heterps.tables.live.shard import Applied, KeyedShard, PulledRows, Shard
from heterps.tables.live.shard_cut import ShardCut
from heterps.tables.snapshots.load import find_generation, load_table, restore, verify
from heterps.tables.snapshots.manifest import Manifest, SnapshotPart
from heterps.tables.snapshots.snapshot import Snapshots, base_of, save_shard, since_of, write_part
from heterps.tables.specs.accessor import ACCESSORS, Accessor, CtrAccessor
from heterps.tables.specs.entries import ENTRIES, CountEntry, Entry, ProbabilityEntry, ShowClickEntry
from heterps.tables.specs.initialisers import INITIALISERS, Constant, Initialiser, Normal, Uniform, Xavier, Zeros
from heterps.tables.specs.rules import (
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
from heterps.tables.specs.schedules import SCHEDULES, Cosine, Exponential, Schedule, Steps, Warmup
from heterps.tables.specs.spec import N_SHARDS, DenseSpec, GroupSpec, TableSpec

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
    "CachedRows",
    "Changes",
    "Constant",
    "Cosine",
    "CountEntry",
    "CtrAccessor",
    "DenseSpec",
    "ElementAdaGrad",
    "Entry",
    "Exponential",
    "FollowedRows",
    "Gathered",
    "GroupSpec",
    "Initialiser",
    "KeyedShard",
    "Kind",
    "LocalDense",
    "LocalRows",
    "Manifest",
    "Moment",
    "Momentum",
    "Normal",
    "OwedRows",
    "OwnDense",
    "ProbabilityEntry",
    "PulledRows",
    "RouteBuffers",
    "Routed",
    "Router",
    "RowGradients",
    "RowWiseAdaGrad",
    "Rule",
    "Schedule",
    "Shard",
    "ShardCut",
    "SharedAdam",
    "ShowClickEntry",
    "SnapshotPart",
    "Snapshots",
    "StdAdaGrad",
    "Steps",
    "Sum",
    "TableSpec",
    "Uniform",
    "Warmup",
    "Xavier",
    "Zeros",
    "base_of",
    "begin_following",
    "cached_row_bytes",
    "changes_since",
    "find_generation",
    "load_table",
    "restore",
    "save_shard",
    "since_of",
    "stop_following",
    "sum_lanes",
    "verify",
    "without_deleted",
    "write_part",
]
