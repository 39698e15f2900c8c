"""Train click-through-rate models with huge sparse tables on a Dask cluster of mixed machines.

Names are imported when they are first used: every worker of a cluster imports this package, and few need all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterps.later import names_later
from heterps.version import __version__ as __version__

if TYPE_CHECKING:
    from heterps.data import (
        Batch as Batch,
        Criteo as Criteo,
        Dataset as Dataset,
        Schema as Schema,
        adult as adult,
        arrays as arrays,
        csv as csv,
        tsv as tsv,
    )
    from heterps.errors import HeterpsError as HeterpsError
    from heterps.estimator import Classifier as Classifier, Regressor as Regressor
    from heterps.graph import Graph as Graph, ops as ops
    from heterps.graph.weighting import weighted as weighted
    from heterps.habits import (
        Callback as Callback,
        CSVLog as CSVLog,
        Dump as Dump,
        EarlyStopping as EarlyStopping,
        KeepBest as KeepBest,
        MLflowLog as MLflowLog,
        ReduceOnPlateau as ReduceOnPlateau,
        TensorBoardLog as TensorBoardLog,
        calibrate as calibrate,
    )
    from heterps.hardware import Hardware as Hardware
    from heterps.launching import launch as launch, load as load
    from heterps.planner import (
        FixedRate as FixedRate,
        MaxThroughput as MaxThroughput,
        MinCost as MinCost,
        Plan as Plan,
    )
    from heterps.planner.planner import plan as plan
    from heterps.protocol.words.keys import BatchKey as BatchKey
    from heterps.protocol.words.modes import Async as Async, Cached as Cached, Geo as Geo, Sync as Sync
    from heterps.ragged import Ragged as Ragged
    from heterps.runtime.cluster.dask_frames import dask_frame as dask_frame
    from heterps.runtime.cluster.probe import discover as discover
    from heterps.runtime.report.phase_profile import PhaseProfile as PhaseProfile
    from heterps.runtime.report.progress import Progress as Progress
    from heterps.serving.neighbours import Neighbours as Neighbours
    from heterps.serving.predictor import Predictor as Predictor
    from heterps.session import Session as Session
    from heterps.stages.partition import partition as partition
    from heterps.streaming import stream as stream
    from heterps.tables import (
        FTRL as FTRL,
        SGD as SGD,
        AdaGrad as AdaGrad,
        Adam as Adam,
        ElementAdaGrad as ElementAdaGrad,
        Momentum as Momentum,
        RowWiseAdaGrad as RowWiseAdaGrad,
        SharedAdam as SharedAdam,
        StdAdaGrad as StdAdaGrad,
        Sum as Sum,
    )

_HOMES = {
    "heterps.data": "Batch Criteo Dataset Schema adult arrays csv tsv",
    "heterps.errors": "HeterpsError",
    "heterps.estimator": "Classifier Regressor",
    "heterps.graph": "Graph ops",
    "heterps.graph.weighting": "weighted",
    "heterps.habits": "CSVLog Callback Dump EarlyStopping KeepBest MLflowLog ReduceOnPlateau TensorBoardLog calibrate",
    "heterps.hardware": "Hardware",
    "heterps.planner": "FixedRate MaxThroughput MinCost Plan plan",
    "heterps.protocol.words.keys": "BatchKey",
    "heterps.protocol.words.modes": "Async Cached Geo Sync",
    "heterps.ragged": "Ragged",
    "heterps.runtime.cluster.dask_frames": "dask_frame",
    "heterps.runtime.cluster.probe": "discover",
    "heterps.runtime.report.phase_profile": "PhaseProfile",
    "heterps.runtime.report.progress": "Progress",
    "heterps.serving.neighbours": "Neighbours",
    "heterps.serving.predictor": "Predictor",
    "heterps.launching": "launch load",
    "heterps.session": "Session",
    "heterps.stages": "partition",
    "heterps.streaming": "stream",
    "heterps.tables": "FTRL SGD AdaGrad Adam ElementAdaGrad Momentum RowWiseAdaGrad SharedAdam StdAdaGrad Sum",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__ = names_later(__name__, _HOME, globals())


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
