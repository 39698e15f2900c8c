"""A model and data small enough to train in a second, with a signal that only the tables can learn."""

from typing import Any

import numpy as np

import heterps as hps
from heterps import ops

SLOTS, NUMBERS = 3, 2


def graph(dim: int = 4, dropout: float = 0.0, storage: str = "memory") -> hps.Graph:
    """Return wide and deep over three slots and two numbers."""
    ids = ops.input("ids", shape=(SLOTS,), dtype="uint64")
    x, y = ops.input("x", shape=(NUMBERS,)), ops.input("y")
    vectors = ops.lookup(ids, table="vectors", dim=dim, name="vectors", storage=storage)
    h = ops.relu(ops.dense(ops.concat(vectors, x, name="features"), 8, name="fc"), name="hidden")
    if dropout:
        h = ops.dropout(h, dropout, name="drop")
    wide = ops.sum(ops.lookup(ids, table="wide", dim=1, name="weights", storage=storage), name="wide")
    logit = ops.add(wide, ops.dense(h, 1, name="out"), name="logit")
    return hps.Graph(loss=ops.logloss(logit, y, name="loss"), outputs={"vector": h})


def columns(rows: int = 1500, seed: int = 7) -> dict[str, Any]:
    """The label is decided by hidden weights of 40 ids a slot."""
    rng = np.random.default_rng(seed)
    hidden = np.random.default_rng(1).normal(size=(SLOTS, 40))
    picks = rng.integers(0, 40, (rows, SLOTS))
    score = hidden[np.arange(SLOTS), picks].sum(axis=1)
    y = (score + rng.normal(scale=0.3, size=rows) > 0).astype(np.float32)
    ids = (picks + 1000 * np.arange(SLOTS)).astype(np.uint64)
    return {"ids": ids, "x": rng.normal(size=(rows, NUMBERS)).astype(np.float32), "y": y}


def data(rows: int = 1500, seed: int = 7, split: int = 400) -> hps.Dataset:
    """Return :func:`columns` in Splits of ``split`` rows."""
    return hps.arrays(columns(rows, seed), split_cost=split)
