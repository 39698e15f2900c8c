"""Small trainings on a device for `heterps doctor`, each against the CPU: a stage, a table, a cache of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device import CopyStreams, Transfer
from heterps.device.arrays import Namespace
from heterps.errors import HardwareError

__all__ = ["cache_trial", "stage_trial", "table_trial"]

F32 = npt.NDArray[np.float32]
BATCHES, ROWS = 6, 16


def stage_trial(xp: Namespace) -> str:
    """Train a stage: batches through pinned memory beside the computation, parameters changed where they are."""
    expected, found = _trained(np), _trained(xp)
    worst = float(np.abs(found - expected).max())
    if not worst < 1e-4:  # a NaN is not
        raise HardwareError(f"parameters are off by {worst:g} after {BATCHES} batches")
    return f"{BATCHES} batches change its parameters as on the CPU (within {worst:.1g})"


def _trained(xp: Namespace) -> F32:
    from heterps.graph import Graph, ops
    from heterps.kernels import Program
    from heterps.tables import Adam, DenseSpec
    from heterps.tables.live.dense import DenseBlock
    from heterps.tables.on_device.device_dense import DeviceDense

    x, y = ops.input("x", shape=(5,)), ops.input("y", shape=())
    hidden = ops.relu(ops.dense(x, 7, name="a"))
    program = Program(Graph(loss=ops.logloss(ops.dense(hidden, 1, name="b"), y)), batch_size=ROWS, xp=xp)
    spec = DenseSpec("all", (program.layout.size,), Adam(lr=0.05))
    dense: Any = DenseBlock([spec], seed=3) if xp is np else DeviceDense([spec], seed=3, xp=xp)
    dense.set("all", np.random.default_rng(1).standard_normal(program.layout.size).astype(np.float32))
    transfer = Transfer(xp, 2, CopyStreams.of(xp))
    laps = [transfer.send(_batch(0))]
    for n in range(BATCHES):
        if n + 1 < BATCHES:
            laps.append(transfer.send(_batch(n + 1)))  # goes up while this one computes
        lap = laps.pop(0)
        params = dense.values if xp is np else dense.pull_there()
        program.forward(lap.arrive(), params)
        dense.push(program.backward().dense)
        lap.download({"loss": program.loss_array})
        lap.collect()
        lap.release()
    return np.array(dense.pull())


def _batch(n: int) -> dict[str, F32]:
    rng = np.random.default_rng(n)
    return {
        "x": rng.standard_normal((ROWS, 5)).astype(np.float32),
        "y": (rng.random(ROWS) < 0.5).astype(np.float32),
    }


def table_trial(xp: Namespace) -> str:
    """Train a table that does not fit: rows go up, are changed there and come down."""
    from heterps.tables.on_device.group_check import check_device_group

    check_device_group(xp)
    return "rows that go up and come down have the bits of a shard host's"


def cache_trial(xp: Namespace) -> str:
    """Train on a cache: rows that stay, own steps, gathered gradients."""
    from heterps.tables.on_device.cache_check import check_device_cache

    check_device_cache(xp)
    return "rows that stay, own steps and gathered gradients have the bits of a cache in memory"
