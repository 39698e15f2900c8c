"""Tiny runs of the parts of a training, each of which compiles the loops that this model needs there.

Loops are compiled by running them, on two rows: so what is compiled is what will be used, whatever kinds of ops, rules
and metrics a model has. :func:`main` does it in a process of its own.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heterps.compiled import is_kept
from heterps.graph import Graph
from heterps.kernels.jit import LOOPS
from heterps.kernels.kernel import kernel
from heterps.kernels.warm import run_once
from heterps.metrics import Metric
from heterps.tables import N_SHARDS, DenseSpec, GroupSpec, Router, Rule, TableSpec
from heterps.tables.live import dense
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.loops import row_loops

__all__ = ["PARTS", "Needs", "main", "missing"]

_IDS = np.arange(2, dtype=np.uint64)


@dataclass(frozen=True)
class Needs:
    """What decides which loops a training needs.

    Parameters
    ----------
    graph
        Lowered.
    sparse, dense
        Rules of tables and of dense parameters.
    metrics
        Kept while training.
    """

    graph: Graph
    sparse: tuple[Rule, ...]
    dense: tuple[Rule, ...]
    metrics: tuple[Metric, ...] = ()


def _group(rules: tuple[Rule, ...]) -> RowGroup:
    tables = tuple(TableSpec(f"tiny{n}", 1, rule) for n, rule in enumerate(rules))
    return RowGroup(GroupSpec("tiny", tables), seed=0, owned=range(N_SHARDS))


def _push(needs: Needs) -> None:
    if needs.sparse:
        gradients, hints = np.ones((len(_IDS), len(needs.sparse)), np.float32), np.zeros(len(_IDS), np.uint32)
        _group(needs.sparse).push(RowGradients(_IDS, gradients, hints))  # as batches have them, from their pull


def _pull(needs: Needs) -> None:
    if needs.sparse:
        _group(needs.sparse).pull(Router().route(_IDS).ids, train=True)


def _dense(needs: Needs) -> None:
    specs = [DenseSpec(f"tiny{n}", (1,), rule) for n, rule in enumerate(needs.dense)]
    dense.DenseBlock(specs, seed=0).push(np.ones(len(specs), np.float32))


def _compute(needs: Needs) -> None:
    run_once(needs.graph)


def _measure(needs: Needs) -> None:
    for metric in needs.metrics:
        metric.update(metric.init(), np.full(2, 0.5, np.float32), np.ones(2, np.float32))


#: By name: what is run. Names are for people.
PARTS: dict[str, Callable[[Needs], None]] = {
    "pushes": _push,
    "pulls": _pull,
    "dense rules": _dense,
    "computing": _compute,
    "metrics": _measure,
}


def missing(needs: Needs) -> tuple[str, ...]:
    """Return the parts whose loops were never kept on this machine, as far as one loop of each tells."""
    told = {"pushes": row_loops.push_rows, "pulls": row_loops.pull_rows} if needs.sparse else {}
    cold = [name for name, loop in (told | {"dense rules": dense._apply}).items() if not is_kept(loop)]
    cold += ["computing"] if _computes_anew(needs.graph) else []
    return (*cold, "metrics") if cold else ()


def _computes_anew(graph: Graph) -> bool:
    """Say whether no loop is kept of a file with loops that a kind of the graph is computed by."""
    forwards = (kernel(op.kind).forward for op in graph.ops)
    files = {forward.__module__ for forward in forwards if forward is not None}
    loops = [[loop for name, loop in LOOPS.items() if name.rpartition(".")[0] == file] for file in files]
    return any(some and not any(map(is_kept, some)) for some in loops)


def main() -> None:
    """Run the parts that the command line names, with the needs that stand in the input; print each when it is done."""
    needs = pickle.load(sys.stdin.buffer)
    for name in sys.argv[1:]:
        PARTS[name](needs)
        print(name, flush=True)
