"""Train click-through-rate models with huge sparse tables on a Dask cluster of mixed machines."""

from heterps.data import Batch, Criteo, Dataset, Schema, adult, arrays, csv, tsv
from heterps.errors import HeterpsError
from heterps.estimator import Estimator
from heterps.graph import Graph, ops
from heterps.hardware import Hardware
from heterps.planner import Plan, plan
from heterps.protocol.keys import BatchKey
from heterps.protocol.modes import Async, Geo, Sync
from heterps.ragged import Ragged
from heterps.runtime.progress import Progress
from heterps.session import Session, launch, load
from heterps.tables import (
    FTRL,
    SGD,
    AdaGrad,
    Adam,
    ElementAdaGrad,
    Momentum,
    RowWiseAdaGrad,
    SharedAdam,
    StdAdaGrad,
    Sum,
)
from heterps.version import __version__ as __version__

__all__ = [
    "FTRL",
    "SGD",
    "AdaGrad",
    "Adam",
    "Async",
    "Batch",
    "BatchKey",
    "Criteo",
    "Dataset",
    "ElementAdaGrad",
    "Estimator",
    "Geo",
    "Graph",
    "Hardware",
    "HeterpsError",
    "Momentum",
    "Plan",
    "Progress",
    "Ragged",
    "RowWiseAdaGrad",
    "Schema",
    "Session",
    "SharedAdam",
    "StdAdaGrad",
    "Sum",
    "Sync",
    "adult",
    "arrays",
    "csv",
    "launch",
    "load",
    "ops",
    "plan",
    "tsv",
]
