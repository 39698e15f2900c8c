"""Compile the loops that pulls and pushes use, by pulling and pushing a few rows, and every built-in rule."""

from __future__ import annotations

import numpy as np

from heterps.compiled import Warmed, accounts
from heterps.protocol.words.keys import BatchKey
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.local_rows import LocalRows
from heterps.tables.live.routing import Router
from heterps.tables.live.shard import Shard
from heterps.tables.loops.rule_calls import address_of
from heterps.tables.specs.rules import (
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
from heterps.tables.specs.spec import DenseSpec, GroupSpec, TableSpec

__all__ = ["warm"]


def warm() -> tuple[Warmed, ...]:
    """Compile, or load from the cache, what training needs; return what was done, by loop."""
    rule = ElementAdaGrad()
    group = GroupSpec("warm", (TableSpec("deep", 4, rule), TableSpec("wide", 1, rule)))
    shard = Shard([group], [DenseSpec("w", (2, 2), Adam())])
    for router in (Router(), Router([0, 1] * 512)):
        routed = router.route(np.arange(8, dtype=np.uint64))
    for n in range(2):
        pulled = shard.pull("warm", routed.ids)
        gradients = RowGradients(routed.ids, np.ones_like(pulled.values), pulled.rows if n else None)
        shard.apply(BatchKey(0, 0, n), {"warm": gradients}, np.ones(4, np.float32))
    shard.pull("warm", routed.ids, train=False)
    own = LocalRows(group, seed=0)
    own.take(routed.ids, pulled.values)
    own.learn(routed.ids, np.ones_like(pulled.values), own.read(routed.ids, pulled.values), 0, None, None)
    own.hear(own.settle(1).ids, pulled.values)
    own.lacking(routed.ids)
    for kind in (FTRL, SGD, AdaGrad, Momentum, RowWiseAdaGrad, SharedAdam, StdAdaGrad, Sum):
        address_of(kind())
    return accounts("heterps.tables.")
